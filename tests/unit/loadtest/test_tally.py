from loadtest.tally import FAILURES_KEPT, Second, Tally, read


def some(call, result, ms, second):
    one = Tally()
    one.record(call, result, ms, second)
    return one


def test_what_several_processes_wrote_is_one(tmp_path):
    """Counts, seconds, failures and wins of all files add up."""
    first, second = some("open", "opened", 1.0, 100), some("open", "sold_out", 3.0, 100)
    second.record("grab", "openable", 2.0, 101)
    first.won.append(("1", "a", 5))
    second.won.append(("1", "b", 6))
    for one, users in ((first, 2), (second, 3)):
        one.fail("odd")
        one.seconds[100].users = users
        one.write(tmp_path / f"{users}.json")
    whole = read(tmp_path.glob("*.json"))
    assert whole.results == {"open": {"opened": 1, "sold_out": 1}, "grab": {"openable": 1}}
    assert whole.latency["open"].total == 2
    assert whole.latency["open"].max_ms == 3.0
    assert whole.seconds[100].results == {"opened": 1, "sold_out": 1}
    assert whole.seconds[100].users == 5
    assert whole.seconds[101].latency.total == 1
    assert whole.failures == {"odd": 2}
    assert sorted(whole.won) == [("1", "a", 5), ("1", "b", 6)]


def test_failures_are_bounded_and_all_counted():
    """However many different sentences there are, few are kept and none is lost from the count."""
    one = Tally()
    for number in range(5 * FAILURES_KEPT):
        one.fail(f"failure {number}")
    assert len(one.failures) == FAILURES_KEPT + 1
    assert sum(one.failures.values()) == 5 * FAILURES_KEPT
    assert Second().users == 0
