// What the page says, in two languages. Keys are English; `en` holds only what is not its own key.

const ZH = {
  "hongbao ops": "红包运维", "sandbox": "沙箱", "Overview": "总览", "Servers": "服务器", "Databases": "数据库", "Days": "日表", "Hot": "热点红包",
  "Statements": "慢语句", "Payouts": "付款", "Switches": "开关与操作", "Envelope": "红包", "Sections": "栏目",
  "Log in": "登录", "Log out": "退出", "Key": "密钥", "Your name": "你的名字", "for the journal, not a right": "只写入操作日志，不代表权限",
  "The operator's key acts, the viewer's key only shows. ./run keys ops prints both.": "运维密钥可操作，只读密钥只能查看。两者由 ./run keys ops 打印。",
  "viewer": "只读", "operator": "运维", "all is well": "一切正常", "nothing heard": "没有应答",
  "No answer from this page's server": "本页面的服务器没有应答", "since": "自", "loading": "正在读取",
  "Needs attention": "需要关注", "Now": "当前", "Last ten minutes": "最近十分钟", "opens/s": "拆包/秒", "won": "抢到", "creates/s": "发包/秒",
  "requests/s": "请求/秒", "refused/s": "拒绝/秒", "errors/s": "错误/秒", "line": "排队", "mailbox p99": "信箱 p99", "commit p99": "提交 p99", "batch": "批量", "rows a commit": "行/提交", "payout lag p99": "付款延迟 p99", "paid/s": "付款/秒",
  "in flight": "在途", "in escrow": "托管中", "unreconciled": "未对平", "never audited here": "此处未审计过",
  "audit running": "审计进行中", "Audit now": "立即审计", "audit failed": "审计失败", "violations": "违例", "everything adds up": "账目全平",
  "waits": "等待", "money in flight": "在途资金", "opens": "拆包",
  "SETs": "SET", "SET": "SET", "state": "状态", "servers": "服务器", "databases": "数据库", "waiting": "等待中", "days ahead": "提前日表", "in service": "服务中", "paused": "已暂停", "drained": "已摘除", "away": "失联", "up": "正常", "Parts": "部件", "part": "部件", "kind": "类型",
  "address": "地址", "process": "进程", "up for": "已运行", "restarts": "重启", "memory": "内存", "in memory": "内存中红包",
  "topology": "拓扑版本", "action": "操作", "all": "全部", "Refusals by reason": "按原因的拒绝", "reason": "原因", "now/s": "当前/秒",
  "in ten minutes": "十分钟内", "no request was refused": "没有请求被拒绝", "What happened": "发生了什么", "nothing happened while this was watched": "观察期间无事发生",
  "is away": "失联", "is back": "已恢复", "was restarted": "已重启", "Pause": "暂停", "Resume": "恢复", "Drain": "摘除", "Undrain": "放回",
  "Close": "关闭", "Open again": "重新开放", "Cancel": "取消", "Where each database lives": "各数据库所在", "database": "数据库",
  "lives in": "所在", "from a date on": "自某日起", "epoch": "纪元", "move": "迁移", "held": "暂停服务", "none": "无",
  "Day-table calendar": "日表日历", "today": "今天", "hot": "热", "closed": "已关", "detached": "已摘下", "exported": "已导出", "verified": "已校验",
  "dropped": "已删除", "envelopes": "红包数", "paid in": "入账", "day": "日期", "Opened most in the last minute": "最近一分钟拆得最多的红包",
  "envelope": "红包", "server": "服务器", "opened in a minute": "一分钟内拆开", "shares left": "剩余份数",
  "no envelope was opened in the last minute": "最近一分钟没有红包被拆开", "Slow statements": "慢语句", "counted by": "统计来源", "statement": "语句",
  "calls": "次数", "total": "总计", "mean": "平均", "most": "最长", "rows": "行", "running now": "正在运行", "waits for": "等待事件", "role": "角色",
  "running": "已运行", "this server does not count statements; shown is what runs now, as the audit's role sees it": "该服务器不统计语句；以下为审计角色看到的正在运行的语句",
  "nothing runs for longer than a moment": "没有长时间运行的语句", "Stuck payouts": "卡住的付款", "receiver": "收款人", "amount": "金额", "tries": "尝试",
  "no payout is stuck": "没有卡住的付款", "drive them again with": "重新驱动：", "What is closed": "已关闭的功能", "nothing is closed": "没有关闭任何功能",
  "switch": "开关", "until": "至", "owner": "负责人", "Close something": "关闭功能", "everywhere": "全部", "Actions": "操作记录", "who": "谁",
  "at": "时间", "what": "做了什么", "target": "对象", "result": "结果", "no action was taken yet": "还没有操作", "done": "已完成", "already so": "本已如此",
  "not followed yet": "尚未生效", "Story": "来龙去脉", "Find an envelope": "查找红包", "Find": "查找", "timeline": "时间线", "Raw JSON": "原始 JSON",
  "funded": "入账", "created": "创建", "claimed": "被抢", "paid": "到账", "refunded": "退款", "expired": "过期", "canceled": "取消", "undone": "撤销",
  "sender": "发送人", "shares": "份数", "greeting": "祝福语", "split": "分法", "verdict": "审计结论", "holds": "全部成立", "does not hold": "不成立",
  "claimed sum": "已抢", "credited": "已到账", "left": "剩余", "place": "存放", "archive": "归档", "cold": "冷表", "nowhere": "无表", "open": "可拆",
  "sold_out": "已抢完", "scheduled": "未到时间", "no_header": "无红包记录", "unreadable": "无法复算", "password": "口令", "named": "专属", "yes": "是", "no": "否",
  "lucky": "拼手气", "equal": "普通", "more in the JSON": "更多见 JSON",
  "Why?": "原因？", "others will read it": "别人会看到", "To confirm, type": "请输入以确认：", "For how many minutes?": "多少分钟？",
  "This takes a server off the ring; the others of its SET serve its envelopes. No request fails.": "服务器将从环上摘除，同 SET 其它服务器接管其红包，没有请求失败。",
  "This puts the server back on the ring.": "服务器将放回环上。",
  "All users of this SET get 503 until it is resumed. Expiry and payouts go on.": "该 SET 的所有用户将得到 503，直到恢复。过期与付款照常。",
  "The SET serves its users again.": "该 SET 重新为用户服务。",
  "Users hear 503 degraded for what is closed. It opens by itself at its time.": "用户对已关闭的功能得到 503 degraded，到时自动重新开放。",
  "It is served again within a second.": "一秒内重新提供服务。",
  "The viewer's key shows; to act, log in with the operator's key.": "只读密钥仅供查看；要操作请用运维密钥登录。", "does not answer": "没有应答", "invariants_broken": "不变式被破坏：红包已冻结", "sweeper_stopped": "清扫停止：大量入账没有红包",
  "funds_set_apart": "有入账被搁置，需人工查看", "payouts_stuck": "有付款卡住", "events_failing": "有事件接收方不接受事件", "events_lost": "有事件未送达即被删除", "jobs_failed": "有定时任务失败（hongbao jobs）", "expiry_unclosable": "有过期红包无法关闭",
  "archive_unavailable": "归档不可用", "days_ahead": "日表即将用完；今天之后尚有日表的天数：", "switched": "已关闭", "creates": "发红包", "grabs": "预抢", "views": "查看", "lists": "列表", "payouts": "付款",
  "gateway": "网关", "setnode": "SET 服务器", "wallet": "钱包", "postgres": "Postgres", "memcached": "memcached", "events": "事件", "rotation": "日表轮转", "Skip to content": "跳到内容", "expires": "到期", "chart": "图表",
};
const EN = {
  invariants_broken: "an invariant is broken: envelopes are frozen", sweeper_stopped: "the sweeper has stopped: many funds have no envelope",
  funds_set_apart: "funds are set apart: an operator must look", payouts_stuck: "payouts were stuck", events_failing: "a receiver of events accepts none", events_lost: "events were deleted before all had heard of them", jobs_failed: "a job has failed (hongbao jobs)", expiry_unclosable: "expired envelopes cannot be closed",
  archive_unavailable: "an archive was missing or not true", days_ahead: "day tables run out; days after today that have some:", switched: "closed",
  sold_out: "sold out", no_header: "no header", unreadable: "does not replay", "claimed sum": "claimed", postgres: "Postgres", "line": "line",
};

/** Codes of problems whose sentence an operator meets every day. The others are told as the server says them. */
const ZH_PROBLEMS = {
  key_wrong: "既不是运维密钥，也不是只读密钥；./run keys ops 会打印它们", session_ended: "会话已结束，请重新登录",
  operator_key_needed: "只读密钥仅供查看；要操作请用运维密钥登录", confirmation_missing: "输入的名称与对象不符，没有任何改动",
  reason_missing: "请用一行写明原因，没有任何改动", unknown_envelope: "SET 与钱包都没有这个红包", malformed_envelope_id: "这不是红包编号（19 位数字）",
  audit_under_way: "审计正在进行，结果会显示在这里", slow_read: "未能及时读完，请重试", database_unavailable: "数据库没有应答", server_away: "服务器没有应答",
};

let current = "en";

export function language() {
  return current === "zh" ? "zh-CN" : "en";
}

/** Say `key` in the language of now. */
export function say(key) {
  return current === "zh" ? ZH[key] ?? key : EN[key] ?? key;
}

/** Say a problem in the language of now; one without a code is the network's. */
export function explain(problem) {
  const known = current === "zh" ? ZH_PROBLEMS[problem.code] : null;
  if (known) return known;
  return problem.code ? problem.message : say("No answer from this page's server");
}

export function choose(wanted) {
  current = wanted === "zh" ? "zh" : "en";
  document.documentElement.lang = language();
  document.title = say("hongbao ops");
}

export function preferred() {
  return localStorage.getItem("hongbao-ops-language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
}

export function remember(wanted) {
  localStorage.setItem("hongbao-ops-language", wanted);
  choose(wanted);
}
