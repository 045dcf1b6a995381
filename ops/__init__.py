"""The operator's view (floor 8): one process that shows an installation as it is now, and does what operators ask.

What lives here, in the way of a request: `routes` (paths, and what each asks for), `sessions` (who asks), `reads`
(lists, read when asked for), `watching` (once a second while somebody watches: `scrape`, `exposition`, `figures`,
`events`, `alarms`), `story` (one envelope from both sides), `actions` with `journal` (drain, pause, switches),
`audits`, `federation` (all processes' metrics as one), `pages` (the page in `web/`), `problems` (codes). `service`
wires them together; `parts` says what there is to watch.

May import: what a command may (`local`, `inspection`, `moving`, `installation`, `audit`, `switches` and below); never
`gateway` or `wallet`, and of `setnode` only the query for stuck payouts, as the command of that name: what else it
knows of them, it asks as everybody does.

Authority: that of the account that runs it, as a command has it. It reads as the audit's role and changes two files,
the topology and the switches, by the functions that commands call (docs/security.md says what a loss of it costs).
Promises, each with its test: without a key nothing but the page's own files and the probes is served
(test_nothing_is_served_without_a_key); with the viewer's key nothing can be changed (test_a_viewer_changes_nothing); an
action that arrives twice is done once (test_an_action_that_arrives_twice_is_done_once); nothing is asked of any process
while nobody watches (test_nobody_is_asked_while_nobody_watches). How it fails: a part that does not answer is shown as
away, with what was heard last; a list that cannot be read says why; money is never touched.
"""
