/*-------------------------------------------------------------------------
 *
 * send.c
 *	  sqs_send, sqs_send_batch and sqs_send_many.
 *
 * A message is checked in full before anything is written, so a send that
 * fails leaves nothing; an entry of a batch that fails its checks fails
 * alone.  A message belongs to the caller's transaction: it is there for
 * others with its commit, and never was with its rollback.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lockdefs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "pg_sqs.h"

/* what a call or an entry of a batch asks to send */
typedef struct Send
{
	text	   *body;
	Jsonb	   *attributes_input;
	MessageAttributes attributes;
	text	   *group_id;
	text	   *deduplication_id;
	text	   *trace_header;
	int32		delay_seconds;
	int32		visibility_timeout;
	bool		has_delay;
	bool		has_timeout;
	const char *utf8;			/* the body's UTF-8 form, once checked */
	int			utf8_length;
	int			size;			/* of that and the attributes */
} Send;

PG_FUNCTION_INFO_V1(sqs_send);
PG_FUNCTION_INFO_V1(sqs_send_batch);
PG_FUNCTION_INFO_V1(sqs_send_many);

/* A new random message id (UUID version 4). */
static void
make_message_id(pg_uuid_t *id)
{
	static unsigned char random[UUID_LEN * 64];
	static int	used = sizeof(random);

	if (used == sizeof(random))
	{
		if (!pg_strong_random(random, sizeof(random)))
			ereport(ERROR,
					errcode(ERRCODE_INTERNAL_ERROR),
					errmsg("could not generate random values"));
		used = 0;
	}
	memcpy(id->data, random + used, UUID_LEN);
	used += UUID_LEN;
	id->data[6] = (id->data[6] & 0x0f) | 0x40;
	id->data[8] = (id->data[8] & 0x3f) | 0x80;
}

/* Checks DelaySeconds. */
static bool
check_delay(const Send *send, Failure *failure)
{
	if (send->has_delay &&
		(send->delay_seconds < 0 || send->delay_seconds > SQS_MAX_DELAY_SECONDS))
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
						"Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= %d.",
						send->delay_seconds, SQS_MAX_DELAY_SECONDS);
	return true;
}

/* Checks the message's own VisibilityTimeout. */
static bool
check_visibility_timeout(const Send *send, Failure *failure)
{
	if (send->has_timeout &&
		(send->visibility_timeout < 0 ||
		 send->visibility_timeout > SQS_MAX_VISIBILITY_TIMEOUT))
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
						"Value %d for parameter VisibilityTimeout is invalid. Reason: Must be >= 0 and <= %d, if provided.",
						send->visibility_timeout, SQS_MAX_VISIBILITY_TIMEOUT);
	return true;
}

/* Checks MessageGroupId and MessageDeduplicationId. */
static bool
check_ids(const Queue *queue, const Send *send, Failure *failure)
{
	if (send->group_id != NULL &&
		!check_identifier("MessageGroupId", VARDATA_ANY(send->group_id),
						  VARSIZE_ANY_EXHDR(send->group_id), failure))
		return false;
	if (send->deduplication_id != NULL && !queue->fifo)
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE,
						"Only FIFO queues deduplicate messages.",
						"Value %s for parameter MessageDeduplicationId is invalid. Reason: The request include parameter that is not valid for this queue type.",
						excerpt_text(send->deduplication_id));
	return true;
}

/* Checks the message's size against its queue's limit. */
static bool
check_size(const Queue *queue, const Send *send, Failure *failure)
{
	if (send->size > queue->maximum_message_size)
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE,
						"The queue attribute MaximumMessageSize is the limit.",
						"One or more parameters %s. Reason: Message must be shorter than %d bytes.",
						failure ? "cannot be validated" : "are invalid",
						queue->maximum_message_size);
	return true;
}

/* Checks a body, and takes what its UTF-8 form gives: size and MD5. */
static bool
check_send_body(Send *send, Failure *failure)
{
	const char *utf8 = "";
	int			length = 0;

	if (send->body != NULL)
	{
		length = VARSIZE_ANY_EXHDR(send->body);
		utf8 = utf8_form(VARDATA_ANY(send->body), &length);
	}
	if (!check_body(utf8, length, failure))
		return false;
	send->utf8 = utf8;
	send->utf8_length = length;
	return true;
}

/* Checks everything about a message, and brings its attributes into form. */
static bool
check_send(const Queue *queue, Send *send, Failure *failure)
{
	if (!check_send_body(send, failure) ||
		!check_delay(send, failure) ||
		!check_visibility_timeout(send, failure) ||
		!check_ids(queue, send, failure))
		return false;
	if (send->trace_header != NULL &&
		!check_trace_header(send->trace_header, failure))
		return false;
	if (send->attributes_input != NULL &&
		!message_attributes_parse(send->attributes_input, &send->attributes,
								  failure))
		return false;
	send->size = send->utf8_length + send->attributes.size;
	return check_size(queue, send, failure);
}

/* The name of the user who sends. */
static text *
sender_name(void)
{
	return cstring_to_text(GetUserNameFromId(GetUserId(), false));
}

/* Makes the message of a send that was checked. */
static void
make_message(QueueTable *table, const Queue *queue, const Send *send,
			 text *sender, TimestampTz now, Message *m)
{
	int32		delay = send->has_delay ? send->delay_seconds :
		queue->delay_seconds;

	memset(m, 0, sizeof(Message));
	m->id = storage_next_id(table);
	m->sent_at = now;
	m->visible_at = now + delay * USECS_PER_SEC;
	m->visibility_timeout = send->has_timeout ? send->visibility_timeout : -1;
	make_message_id(&m->message_id);
	m->sender_id = sender;
	m->message_group_id = send->group_id;
	m->aws_trace_header = send->trace_header;
	m->body = send->body;
	m->message_attributes = send->attributes.canonical;
	storage_effects(table)->metrics[METRIC_SENT]++;
	storage_effects(table)->metrics[METRIC_SENT_BYTES] += send->size;
}

/* An optional integer argument. */
static int32
optional_int(FunctionCallInfo fcinfo, int n, bool *present)
{
	*present = !PG_ARGISNULL(n);
	return *present ? PG_GETARG_INT32(n) : 0;
}

/* Builds the row that sqs_send returns. */
static Datum
sent_row(FunctionCallInfo fcinfo, const Send *send, Message *m)
{
	TupleDesc	desc;
	HeapTuple	tuple;
	Datum		values[4] = {0};
	bool		nulls[4] = {false, true, false, false};

	values[0] = UUIDPGetDatum(&m->message_id);
	values[2] = PointerGetDatum(md5_hex(send->utf8, send->utf8_length));
	values[3] = PointerGetDatum(send->attributes.md5);
	nulls[3] = send->attributes.md5 == NULL;
	desc = lookup_rowtype_tupdesc(get_func_rettype(fcinfo->flinfo->fn_oid), -1);
	tuple = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	return HeapTupleGetDatum(tuple);
}

/* sqs_send() */
Datum
sqs_send(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;
	Send		send = {0};
	Message		message;

	table = open_queue_to_write(fcinfo, "sqs_send()", ACL_INSERT, &queue);
	send.body = text_argument(fcinfo, 1);
	send.delay_seconds = optional_int(fcinfo, 2, &send.has_delay);
	send.attributes_input = jsonb_argument(fcinfo, 3);
	send.group_id = text_argument(fcinfo, 4);
	send.deduplication_id = text_argument(fcinfo, 5);
	send.visibility_timeout = optional_int(fcinfo, 6, &send.has_timeout);
	send.trace_header = text_argument(fcinfo, 7);
	(void) check_send(&queue, &send, NULL);
	make_message(table, &queue, &send, sender_name(), GetCurrentTimestamp(),
				 &message);
	storage_insert(table, &message);
	storage_close(table, false);
	return sent_row(fcinfo, &send, &message);
}

/* Reads MessageSystemAttributes of an entry: AWSTraceHeader and no other. */
static bool
read_system_attributes(BatchEntry *entry, Send *send)
{
	Jsonb	   *attributes;

	if (!batch_jsonb(entry, "MessageSystemAttributes", &attributes))
		return false;
	return attributes == NULL ||
		message_system_attributes_parse(attributes, &send->trace_header,
										&entry->failure);
}

/* Reads an entry of a batch. */
static void
read_entry(const Queue *queue, BatchEntry *entry, Send *send)
{
	bool		no_delay;
	bool		no_timeout;

	if (!batch_text(entry, "MessageBody", &send->body) ||
		!batch_int(entry, "DelaySeconds", &send->delay_seconds, &no_delay) ||
		!batch_int(entry, "VisibilityTimeout", &send->visibility_timeout,
				   &no_timeout) ||
		!batch_jsonb(entry, "MessageAttributes", &send->attributes_input) ||
		!batch_text(entry, "MessageGroupId", &send->group_id) ||
		!batch_text(entry, "MessageDeduplicationId", &send->deduplication_id) ||
		!read_system_attributes(entry, send))
		return;
	send->has_delay = !no_delay;
	send->has_timeout = !no_timeout;
	(void) check_send(queue, send, &entry->failure);
}

/* Refuses a batch that is too long as a whole. */
static void
check_batch_size(const Send *sends, int n)
{
	int64		total = 0;

	for (int i = 0; i < n; i++)
		total += sends[i].size;
	if (total > SQS_MAX_BATCH_BYTES)
		sqs_error(ERRCODE_SQS_BATCH_TOO_LONG,
				  "Send fewer messages in a call, or use sqs_send_many().",
				  "Batch requests cannot be longer than %d bytes. You have sent " INT64_FORMAT " bytes.",
				  SQS_MAX_BATCH_BYTES, total);
}

/* Sends the entries that passed, and fills in their results. */
static void
send_entries(QueueTable *table, const Queue *queue, const BatchEntry *entries,
			 Send *sends, BatchResult *results, int n)
{
	Message    *messages = palloc_array(Message, n);
	text	   *sender = sender_name();
	TimestampTz now = GetCurrentTimestamp();
	int			count = 0;

	for (int i = 0; i < n; i++)
	{
		Message    *m = &messages[count];

		if (entries[i].failure.sqlstate != 0)
			continue;
		make_message(table, queue, &sends[i], sender, now, m);
		results[i].message_id = &m->message_id;
		results[i].md5_of_message_body =
			md5_hex(sends[i].utf8, sends[i].utf8_length);
		results[i].md5_of_message_attributes = sends[i].attributes.md5;
		count++;
	}
	storage_insert_many(table, messages, count);
}

/* sqs_send_batch() */
Datum
sqs_send_batch(PG_FUNCTION_ARGS)
{
	static const char *const members[] = {
		"Id", "MessageBody", "DelaySeconds", "MessageAttributes",
		"MessageSystemAttributes", "MessageGroupId", "MessageDeduplicationId",
		"VisibilityTimeout", NULL
	};
	Queue		queue;
	QueueTable *table;
	BatchEntry *entries;
	BatchResult *results;
	Send	   *sends;
	int			n;

	result_begin(fcinfo, BATCH_RESULT_COLUMNS);
	table = open_queue_to_write(fcinfo, "sqs_send_batch()", ACL_INSERT, &queue);
	entries = batch_parse(jsonb_argument(fcinfo, 1),
						  "SendMessageBatchRequestEntry", members, &n);
	sends = palloc0_array(Send, n);
	results = palloc0_array(BatchResult, n);
	for (int i = 0; i < n; i++)
		read_entry(&queue, &entries[i], &sends[i]);
	check_batch_size(sends, n);
	batch_check(entries, n);
	send_entries(table, &queue, entries, sends, results, n);
	storage_close(table, false);
	batch_return(fcinfo, entries, results, n);
	return (Datum) 0;
}

/* sqs_send_many() */
Datum
sqs_send_many(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;
	Send		send = {0};
	Datum	   *bodies;
	Message    *messages;
	text	   *sender;
	TimestampTz now;
	int			n;

	result_begin(fcinfo, 1);
	table = open_queue_to_write(fcinfo, "sqs_send_many()", ACL_INSERT, &queue);
	bodies = array_argument(fcinfo, 1, "MessageBodies", &n);
	send.delay_seconds = optional_int(fcinfo, 2, &send.has_delay);
	send.attributes_input = jsonb_argument(fcinfo, 3);
	send.group_id = text_argument(fcinfo, 4);
	messages = palloc_extended(Max(n, 1) * sizeof(Message), MCXT_ALLOC_HUGE);
	sender = sender_name();
	now = GetCurrentTimestamp();
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		send.body = text_element(bodies[i]);
		(void) check_send(&queue, &send, NULL);
		send.attributes_input = NULL;	/* parsed, once for all */
		make_message(table, &queue, &send, sender, now, &messages[i]);
	}
	storage_insert_many(table, messages, n);
	storage_close(table, false);
	for (int i = 0; i < n; i++)
	{
		Datum		value = UUIDPGetDatum(&messages[i].message_id);
		bool		isnull = false;

		result_row(fcinfo, &value, &isnull);
	}
	return (Datum) 0;
}
