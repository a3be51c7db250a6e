"""Client settings to copy, with the instance's own values filled in."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from console.instances.models import Instance

SECRET_PLACEHOLDER = "YOUR_ACCESS_KEY_SECRET"  # noqa: S105 - what stands where the secret belongs


@dataclass(frozen=True)
class Snippet:
    """Text to paste, what it is for, and which library it needs."""

    slug: str
    title: str
    library: str
    text: str


def snippets(instance: Instance, *, access_key_id: str, topic: str, group_id: str) -> list[Snippet]:
    """The settings for each client. What is not there yet is a placeholder in capitals."""
    values = {
        "namesrv": instance.cluster.namesrv,
        "instance": instance.instance_id if instance.independent_naming else "",
        "key": access_key_id or "YOUR_ACCESS_KEY_ID",
        "secret": SECRET_PLACEHOLDER,
        "topic": topic or "YOUR_TOPIC",
        "group": group_id or "GID_YOUR_GROUP",
    }
    values["topic_on_wire"] = instance.physical_name(values["topic"])
    named = instance.independent_naming
    return [
        Snippet("ons", "Java", "com.aliyun.openservices:ons-client:1.8.8.5.Final", _ons(values, named)),
        Snippet("apache", "Java, Apache", "org.apache.rocketmq:rocketmq-client:5.3.3", _apache(values, named)),
        Snippet("python", "Python", _("brokercore.client of this project"), _python(values, named)),
        Snippet("mqadmin", "mqadmin", _("the tools of Apache RocketMQ 5.3.3"), _mqadmin(values)),
    ]


def _ons(values: dict[str, str], named: bool) -> str:
    instance = 'properties.setProperty(PropertyKeyConst.INSTANCE_ID, "{instance}");\n' if named else ""
    text = (
        "Properties properties = new Properties();\n"
        'properties.setProperty(PropertyKeyConst.NAMESRV_ADDR, "{namesrv}");\n'
        + instance
        + 'properties.setProperty(PropertyKeyConst.AccessKey, "{key}");\n'
        'properties.setProperty(PropertyKeyConst.SecretKey, "{secret}");\n'
        'properties.setProperty(PropertyKeyConst.GROUP_ID, "{group}");\n'
        "Producer producer = ONSFactory.createProducer(properties);\n"
        "producer.start();\n"
        'producer.send(new Message("{topic}", "tag", "key", "Hello".getBytes(StandardCharsets.UTF_8)));\n'
    )
    return text.format(**values)


def _apache(values: dict[str, str], named: bool) -> str:
    instance = 'producer.setNamespace("{instance}");\n' if named else ""
    text = (
        'RPCHook hook = new AclClientRPCHook(new SessionCredentials("{key}", "{secret}"));\n'
        'DefaultMQProducer producer = new DefaultMQProducer("{group}", hook);\n'
        'producer.setNamesrvAddr("{namesrv}");\n' + instance + "producer.start();\n"
        'producer.send(new Message("{topic}", "tag", "key", "Hello".getBytes(StandardCharsets.UTF_8)));\n'
    )
    return text.format(**values)


def _python(values: dict[str, str], named: bool) -> str:
    instance = ', namespace="{instance}"' if named else ""
    text = (
        "from brokercore.client import Credentials, Message, Producer\n\n"
        'credentials = Credentials("{key}", "{secret}")\n'
        'with Producer("{namesrv}", credentials, "{group}"' + instance + ") as producer:\n"
        '    print(producer.send(Message("{topic}", b"Hello", tags="tag", keys="key")))\n'
    )
    return text.format(**values)


def _mqadmin(values: dict[str, str]) -> str:
    text = (
        "# conf/tools.yml\n"
        "accessKey: {key}\n"
        "secretKey: {secret}\n\n"
        "# then\n"
        "bin/mqadmin topicStatus -n {namesrv} -t '{topic_on_wire}'\n"
    )
    return text.format(**values)
