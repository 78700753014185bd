/*-------------------------------------------------------------------------
 *
 * message.c
 *	  What the times and counts of a message mean.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pg_sqs.h"

/*
 * When the retention period of a message is over.  Its clock goes on when a
 * message moves to a dead-letter queue; a FIFO queue's starts anew.
 */
TimestampTz
message_expiry(const Queue *queue, const Message *message)
{
	TimestampTz from = queue->fifo && message->enqueued_at != 0 ?
		message->enqueued_at : message->sent_at;

	return from + queue->message_retention_period * USECS_PER_SEC;
}

/* Whether it is over. */
bool
message_is_expired(const Queue *queue, const Message *message, TimestampTz now)
{
	return message_expiry(queue, message) <= now;
}

/*
 * How long a message just received is hidden, in microseconds; at least one.
 * seconds: what the receive says, -1 = nothing.
 */
int64
message_lease(const Queue *queue, const Message *message, int32 seconds)
{
	if (seconds < 0)
		seconds = message->visibility_timeout;
	if (seconds < 0)
		seconds = queue->visibility_timeout;
	return seconds > 0 ? seconds * USECS_PER_SEC : 1;
}

/* Counts receives in a message. */
void
message_count_receives(Message *message, int n, TimestampTz now)
{
	message->receive_count += n;
	message->last_received_at = now;
	if (message->first_received_at == 0)
		message->first_received_at = now;
}
