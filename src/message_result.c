/*-------------------------------------------------------------------------
 *
 * message_result.c
 *	  Returns messages, as rows of type sqs_message.
 *
 * A body can be 1 MiB, and a call can return thousands: each is freed as soon
 * as its row is formed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "pg_sqs.h"

#define MESSAGE_COLUMNS 14		/* of type sqs_message */

/* Announces a set of messages to the caller of a function. */
void
message_result_begin(FunctionCallInfo fcinfo)
{
	result_begin(fcinfo, MESSAGE_COLUMNS);
}

/* A value as it is to be returned: not a pointer to where it is stored. */
static Datum
result_value(void *value)
{
	struct varlena *datum = value;

	if (VARATT_IS_EXTERNAL(datum))
		datum = detoast_external_attr(datum);
	return PointerGetDatum(datum);
}

/* Frees a value once it is returned, unless it is where it is stored. */
static void
free_result(Datum value, const void *stored)
{
	if (stored != NULL && DatumGetPointer(value) != stored)
		pfree(DatumGetPointer(value));
}

/* Adds a message to the set; the handle is NULL where there is none. */
void
message_result_row(FunctionCallInfo fcinfo, const Message *m, text *handle)
{
	Datum		values[MESSAGE_COLUMNS] = {0};
	bool		nulls[MESSAGE_COLUMNS] = {false};

#define VALUE(n, pointer) \
	if ((pointer) != NULL) \
		values[n] = result_value(pointer); \
	else \
		nulls[n] = true
#define TIME(n, time) \
	if ((time) != 0) \
		values[n] = TimestampTzGetDatum(time); \
	else \
		nulls[n] = true
	values[0] = UUIDPGetDatum((pg_uuid_t *) &m->message_id);
	VALUE(1, handle);
	VALUE(2, m->body);
	values[3] = Int32GetDatum(m->receive_count);
	TIME(4, m->sent_at);
	TIME(5, m->first_received_at);
	TIME(6, m->visible_at);
	VALUE(7, m->sender_id);
	VALUE(8, m->message_group_id);
	VALUE(9, m->message_deduplication_id);
	nulls[10] = true;			/* a standard queue's messages have no number */
	VALUE(11, m->message_attributes);
	VALUE(12, m->aws_trace_header);
	VALUE(13, m->dead_letter_queue_source);
#undef VALUE
#undef TIME
	result_row(fcinfo, values, nulls);
	free_result(values[2], m->body);
	free_result(values[11], m->message_attributes);
}
