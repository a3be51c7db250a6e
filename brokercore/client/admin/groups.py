"""Consumer groups: configuration, creation, deletion."""

from __future__ import annotations

from brokercore.client.admin.base import read, read_names
from brokercore.client.admin.topics import TopicsAdmin
from brokercore.client.errors import GroupNotExist
from brokercore.client.namespace import DLQ_PREFIX, RETRY_PREFIX
from brokercore.protocol.bodies.config import GroupConfig, group_table_from_json
from brokercore.protocol.codes import RequestCode


class GroupsAdmin(TopicsAdmin):
    """Groups of the cluster. A change goes to every master."""

    def group_configs(self) -> dict[str, GroupConfig]:
        """The configuration of every group by name."""
        merged: dict[str, GroupConfig] = {}
        for configs in self.group_configs_by_broker().values():
            merged = configs | merged
        return merged

    def group_configs_by_broker(self) -> dict[str, dict[str, GroupConfig]]:
        """As `group_configs`, for each master by its broker name (GET_ALL_SUBSCRIPTIONGROUP_CONFIG)."""
        masters = self.masters()
        answers = self.ask(masters.values(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return {name: read(group_table_from_json, answers[address].body, address) for name, address in masters.items()}

    def group_config(self, group: str) -> GroupConfig:
        """The configuration of a group (GET_SUBSCRIPTIONGROUP_CONFIG). Raises GroupNotExist."""
        answers = self.ask_where_known(
            self.masters().values(), RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}, GroupNotExist
        )
        address, response = next(iter(answers.items()))
        return read(GroupConfig.from_json, response.body, address)

    def create_group(self, group: str, *, retry_max_times: int = 16, consume_enable: bool = True) -> None:
        """Create or change a group on every master (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)."""
        self.update_group(GroupConfig(group, retry_max_times=retry_max_times, consume_enable=consume_enable))

    def update_group(self, config: GroupConfig) -> None:
        """Create or change a group on every master with all its settings; see `group_config` for the present ones."""
        self.ask(self.masters().values(), RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.to_json())

    def delete_group(self, group: str) -> None:
        """Delete a group, its offsets, its retry topic and its dead letters, as `mqadmin deleteSubGroup` does."""
        ext = {"groupName": group, "cleanOffset": "true"}
        self.ask(self.masters().values(), RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            self.delete_topic(prefix + group)

    def topics_of_group(self, group: str) -> list[str]:
        """Topics a group subscribes to or has offsets in (QUERY_TOPICS_BY_CONSUMER)."""
        topics: set[str] = set()
        answers = self.ask(self.masters().values(), RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": group})
        for address, response in answers.items():
            topics.update(read_names(response.body, "topicList", address))
        return sorted(topics)
