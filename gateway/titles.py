# ruff: noqa: RUF001 - Chinese has a comma of its own
"""Titles of problems in Chinese, and which language a client asks for (RFC 9110, 12.5.4). `detail` stays English."""

from functools import lru_cache
from typing import Final

ENGLISH: Final = "en"
CHINESE: Final = "zh"
_MOST_CHARS: Final = 200
_MOST_PARTS: Final = 10
"""Of an Accept-Language: people speak fewer languages, and the rest is not read."""

CHINESE_TITLES: Final[dict[str, str]] = {
    "malformed_http": "无法识别的 HTTP 请求",
    "route_not_found": "没有这个路径",
    "method_not_allowed": "该路径不支持此方法",
    "body_timeout": "请求内容没有及时送达",
    "body_too_large": "请求内容过大",
    "unsupported_media_type": "请发送 application/json",
    "play_users_off": "这里没有体验用户",
    "unknown_play_user": "没有这个体验用户",
    "token_missing": "需要登录令牌",
    "metrics_key_missing": "需要指标密钥",
    "token_expired": "登录令牌已过期",
    "token_invalid": "登录令牌无效",
    "too_many_rejected_tokens": "该地址的无效令牌过多",
    "too_many_requests": "请求过于频繁",
    "too_many_streams": "实时连接过多",
    "daily_wins_reached": "今天领取的红包已达上限",
    "daily_opens_of_sender_reached": "今天领取此人的红包已达上限",
    "too_soon": "操作太快，请稍候",
    "malformed_json": "请求内容不是 JSON",
    "unknown_field": "有无法识别的字段",
    "missing_field": "缺少字段",
    "duplicate_field": "字段重复",
    "wrong_type": "字段类型不对",
    "idempotency_key_missing": "缺少 Idempotency-Key",
    "malformed_idempotency_key": "Idempotency-Key 格式不对",
    "malformed_envelopes": "红包列表为空或过长",
    "malformed_limit": "每页条数超出范围",
    "malformed_cursor": "翻页位置无效",
    "malformed_year": "年份无效",
    "unknown_role": "未知的列表类型",
    "repeated_parameter": "参数重复",
    "unknown_parameter": "未知的参数",
    "malformed_envelope_id": "不是红包编号",
    "share_id_invalid": "链接不完整或无效",
    "impossible_day": "红包编号的日期不存在",
    "future_envelope_id": "红包编号的日期还没到",
    "unknown_slot": "红包编号无效",
    "unknown_kind": "未知的红包类型",
    "unknown_split": "未知的分配方式",
    "split_not_for_kind": "分配方式与红包类型不符",
    "bounds_not_for_kind": "此类红包不能限定单个金额",
    "bounds_not_possible": "单个金额的限定无法凑成总金额",
    "malformed_amount": "金额须为整数分",
    "amount_out_of_range": "金额超出范围",
    "malformed_count": "红包个数无效",
    "count_out_of_range": "红包个数超出范围",
    "count_exceeds_total": "每个红包至少 1 分",
    "count_exceeds_invited": "红包个数多于领取人数",
    "greeting_too_long": "祝福语过长",
    "control_character": "文字中有控制字符",
    "password_length": "口令为空或过长",
    "too_few_users": "领取人名单为空",
    "too_many_users": "领取人名单过长",
    "malformed_user": "用户名无效",
    "duplicate_user": "领取人重复",
    "malformed_opens_at": "开始时间格式不对",
    "opens_at_out_of_range": "开始时间已过或太远",
    "expires_in_out_of_range": "有效时间超出范围",
    "not_found": "没有这个红包",
    "not_invited": "这个红包不是发给你的",
    "not_the_sender": "只有发红包的人可以这样做",
    "already_final": "红包已领完，无可退回",
    "insufficient_funds": "零钱不足",
    "idempotency_key_reused": "Idempotency-Key 已用于另一个请求",
    "day_closed": "当日业务已结束",
    "create_undone": "红包未能发出，钱已退回",
    "busy": "现在太忙，请稍候",
    "envelope_unavailable": "现在太忙，请稍候",
    "no_free_id": "现在太忙，请稍候",
    "peer_down": "系统的一部分暂时不可用",
    "wallet_unavailable": "钱包暂时不可用",
    "no_server": "系统的一部分暂时不可用",
    "not_ready": "系统还在启动",
    "stopping": "系统的一部分正在重启",
    "not_permitted": "系统的一部分缺少权限",
    "degraded": "此功能暂时关闭",
    "set_paused": "系统的一部分已暂停",
    "wrong_set": "红包正在迁移",
    "being_moved": "红包正在迁移",
    "topology_outdated": "红包正在迁移",
    "database_unavailable": "数据库暂时不可用",
    "standby_missing": "数据库的备机不可用，暂时不能写入",
    "archive_unavailable": "当日的归档暂时不可用",
    "day_tables_missing": "当日的数据表还没有准备好",
    "clocks_differ": "系统内部的日期不一致",
    "outcome_unknown": "没有及时得到结果",
    "internal_error": "系统出错",
    "invariant_broken": "红包已冻结",
}


def title_of(code: str, english: str, language: str) -> str:
    """Return the title of a problem in a language; in English where there is no other."""
    return CHINESE_TITLES.get(code, english) if language == CHINESE else english


@lru_cache(maxsize=256)
def language_of(accepted: str) -> str:
    """Return CHINESE if a client's Accept-Language prefers it to English, else ENGLISH."""
    best, weight = ENGLISH, 0.0
    for part in accepted[:_MOST_CHARS].split(",")[:_MOST_PARTS]:
        tag, _, parameter = part.partition(";")
        name = tag.strip().lower().partition("-")[0]
        quality = _quality(parameter)
        if name in (CHINESE, ENGLISH) and quality > weight:
            best, weight = name, quality
    return best


def _quality(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if not name:
        return 1.0
    try:
        quality = float(value)
    except ValueError:
        return 0.0
    return quality if name.strip() == "q" and 0.0 <= quality <= 1.0 else 0.0
