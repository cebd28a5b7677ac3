"""The sandbox's own tests in real containers of the image: thirteen languages, K1-K4, what is left of a session.

The checks are those of tests/sandbox; only what starts the environment is another.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.image.container import contained
from tests.sandbox.rooms import Room, room
from tests.sandbox.test_matrix import (  # noqa: F401
    test_a_program_prints,
    test_a_program_that_fails_is_told_as_everywhere,
    test_a_program_writes_a_file_and_the_next_one_reads_it,
    test_arguments_reach_the_program_only,
)
from tests.sandbox.test_protection import (  # noqa: F401
    test_A10_a_fork_bomb_is_bounded_and_over_with_its_run,
    test_A14_the_environment_is_an_allow_list,
    test_A17_memory_is_bounded,
    test_a_program_is_the_one_user_without_powers,
    test_health_says_which_layers_hold,
    test_K1_credentials_are_seen_in_no_language,
    test_K1_no_process_shows_its_environment_memory_or_descriptors,
    test_K1_the_function_itself_has_forgotten_its_credentials,
    test_K2_nothing_is_reached_where_the_filter_is,
    test_K2_sockets_are_shut_where_the_filter_is,
    test_K4_no_program_becomes_more_than_it_is,
    test_K4_nobody_around_a_program_is_touched_where_the_filter_is,
    test_K20_the_log_has_nothing_of_a_program,
)
from tests.sandbox.test_survival import (  # noqa: F401
    test_a_held_workspace_is_restored_from_nothing_but_changes,
    test_a_program_may_empty_tmp_and_keeps_its_workspace,
    test_a_program_that_kills_or_stops_its_supervisor_is_an_error_and_leaves_nothing,
    test_another_session_finds_nothing_and_the_first_is_restored,
    test_K3_a_daemon_whose_first_thread_has_ended_is_found_too,
    test_K3_a_deaf_daemon_is_dead_before_the_answer,
    test_what_a_run_leaves_elsewhere_is_gone_for_the_next_and_its_workspace_is_kept,
)


@pytest.fixture(scope="module", params=["strict", "like lambda"])
def sole(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A container of each configuration, one after the other."""
    with room(request.param, contained) as made:
        yield made


def test_nothing_lends_powers_and_only_the_engines_folders_can_be_written(sole: Room) -> None:
    assert sole.bash("find / -xdev -perm /6000 -type f 2>/dev/null").stdout == ""
    found = sole.bash("find / -path /proc -prune -o -type d -writable -print 2>/dev/null | grep -v ^/tmp/").stdout
    assert set(found.split()) <= {"/tmp", "/dev/shm", "/dev/mqueue"}
    assert sole.bash("touch /usr/x /etc/x /x /mnt/x /opt/workroom/x 2>&1 | wc -l").stdout == "5\n"
