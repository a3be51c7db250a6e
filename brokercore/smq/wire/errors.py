"""What the service answers when it does not do what it was asked (docs/operate/queues.md, "Errors")."""

from __future__ import annotations

from enum import Enum


class Code(Enum):
    """An error code with its HTTP status; the names are the vendor's.

    InvalidAccessKeyId and InvalidQueryString are answers of the vendor's service alone, which the client reads: what
    it does not know it takes for an outage, and tries again. This service does not tell which keys there are, and says
    of a parameter what is wrong with it (InvalidArgument).
    """

    ACCESS_DENIED = "AccessDenied", 403
    INVALID_ACCESS_KEY_ID = "InvalidAccessKeyId", 403
    SIGNATURE_DOES_NOT_MATCH = "SignatureDoesNotMatch", 403
    TIME_EXPIRED = "TimeExpired", 408
    MISSING_AUTHORIZATION_HEADER = "MissingAuthorizationHeader", 400
    MISSING_DATE_HEADER = "MissingDateHeader", 400
    MISSING_VERSION_HEADER = "MissingVersionHeader", 400
    INVALID_AUTHORIZATION_HEADER = "InvalidAuthorizationHeader", 400
    INVALID_DATE_HEADER = "InvalidDateHeader", 400
    INVALID_VERSION_HEADER = "InvalidVersionHeader", 400
    INVALID_DIGEST = "InvalidDigest", 400
    INVALID_ARGUMENT = "InvalidArgument", 400
    INVALID_QUERY_STRING = "InvalidQueryString", 400
    INVALID_REQUEST_URL = "InvalidRequestURL", 400
    MALFORMED_XML = "MalformedXML", 400
    MISSING_RECEIPT_HANDLE = "MissingReceiptHandle", 400
    MISSING_VISIBILITY_TIMEOUT = "MissingVisibilityTimeout", 400
    RECEIPT_HANDLE_ERROR = "ReceiptHandleError", 400
    INVALID_QUEUE_NAME = "InvalidQueueName", 400
    QUEUE_NAME_LENGTH_ERROR = "QueueNameLengthError", 400
    TOPIC_NAME_INVALID = "TopicNameInvalid", 400
    TOPIC_NAME_LENGTH_ERROR = "TopicNameLengthError", 400
    SUBSCRIPTION_NAME_INVALID = "SubscriptionNameInvalid", 400
    SUBSCRIPTION_NAME_LENGTH_ERROR = "SubscriptionNameLengthError", 400
    ENDPOINT_INVALID = "EndpointInvalid", 400
    QPS_LIMIT_EXCEEDED = "QpsLimitExceeded", 400
    QUEUE_NOT_EXIST = "QueueNotExist", 404
    MESSAGE_NOT_EXIST = "MessageNotExist", 404
    CERTIFICATE_NOT_EXIST = "CertificateNotExist", 404
    TOPIC_NOT_EXIST = "TopicNotExist", 404
    SUBSCRIPTION_NOT_EXIST = "SubscriptionNotExist", 404
    QUEUE_ALREADY_EXIST = "QueueAlreadyExist", 409
    TOPIC_ALREADY_EXIST = "TopicAlreadyExist", 409
    SUBSCRIPTION_ALREADY_EXIST = "SubscriptionAlreadyExist", 409
    INTERNAL_ERROR = "InternalError", 500

    def __init__(self, text: str, status: int) -> None:
        self.text, self.status = text, status


class SmqError(Exception):
    """A request that is refused: `code` for programs, `message` a sentence for people."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message
