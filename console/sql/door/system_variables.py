"""The system variables that clients ask for, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from console.sql.door.limits import AFTER_SIGN_IN, IDLE_S, WRITE_S

Value = str | int | None


@dataclass(frozen=True, slots=True)
class Variable:
    """A system variable; `settable` by the client for its own connection."""

    default: Value
    settable: bool = True


def _fixed(**values: Value) -> dict[str, Variable]:
    return {name: Variable(value, settable=False) for name, value in values.items()}


def _own(**values: Value) -> dict[str, Variable]:
    return {name: Variable(value) for name, value in values.items()}


VARIABLES = _fixed(
    version="8.0.36-gantry",
    version_comment="Gantry async SQL",
    version_compile_os="Linux",
    version_compile_machine="x86_64",
    license="Apache-2.0",
    protocol_version=10,
    hostname="gantry",
    port=3306,
    lower_case_table_names=0,
    lower_case_file_system="OFF",
    max_allowed_packet=AFTER_SIGN_IN,
    performance_schema=0,
    have_ssl="YES",
    have_openssl="YES",
    have_profiling="NO",
    have_query_cache="NO",
    query_cache_size=0,
    query_cache_type="OFF",
    log_bin=0,
    server_id=0,
    read_only=0,
    super_read_only=0,
    init_connect="",
    system_time_zone="UTC",
    event_scheduler="OFF",
    secure_file_priv=None,
    default_authentication_plugin="caching_sha2_password",
    character_set_system="utf8mb3",
    character_set_filesystem="binary",
    max_connections=1000,
) | _own(
    auto_increment_increment=1,
    auto_increment_offset=1,
    autocommit=1,
    character_set_client="utf8mb4",
    character_set_connection="utf8mb4",
    character_set_database="utf8mb4",
    character_set_results="utf8mb4",
    character_set_server="utf8mb4",
    collation_connection="utf8mb4_0900_ai_ci",
    collation_database="utf8mb4_0900_ai_ci",
    collation_server="utf8mb4_0900_ai_ci",
    completion_type="NO_CHAIN",
    default_storage_engine="spark",
    default_tmp_storage_engine="spark",
    foreign_key_checks=1,
    group_concat_max_len=1024,
    information_schema_stats_expiry=86400,
    interactive_timeout=IDLE_S,
    lc_messages="en_US",
    lc_time_names="en_US",
    lock_wait_timeout=31536000,
    max_execution_time=0,
    max_join_size=2**64 - 1,
    net_buffer_length=16384,
    net_read_timeout=30,
    net_write_timeout=WRITE_S,
    optimizer_switch="",
    profiling=0,
    sql_auto_is_null=0,
    sql_big_selects=1,
    sql_log_bin=0,
    sql_mode="",
    sql_notes=1,
    sql_quote_show_create=1,
    sql_safe_updates=0,
    sql_select_limit=2**64 - 1,
    sql_warnings=0,
    time_zone="UTC",
    transaction_isolation="READ-COMMITTED",
    transaction_read_only=0,
    tx_isolation="READ-COMMITTED",
    tx_read_only=0,
    unique_checks=1,
    wait_timeout=IDLE_S,
)
