/*-------------------------------------------------------------------------
 *
 * redrive.c
 *	  Moves messages to a dead-letter queue.
 *
 * A message received maxReceiveCount times is not returned again: the receive
 * that meets it moves it, in its own transaction.  Moving is the system's act:
 * it needs no right of the caller, and triggers of the dead-letter queue's
 * table run as that table's owner.  Message id, body, attributes, times and
 * receive count stay what they were.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/builtins.h"

#include "pg_sqs.h"

/* Whether a message has been received as often as its queue allows. */
bool
redrive_is_due(const Queue *queue, const Message *message)
{
	return queue->dead_letter_queue[0] != '\0' &&
		message->receive_count >= queue->max_receive_count;
}

/*
 * Finds the dead-letter queue of a queue.  False where there is none to move
 * to: it was deleted, or is the queue itself; messages then stay.
 */
bool
redrive_find(const Queue *queue, Queue *target)
{
	return strcmp(queue->dead_letter_queue, queue->name) != 0 &&
		catalog_find(queue->dead_letter_queue, target) &&
		target->fifo == queue->fifo;
}

/* Opens it; false where there is none. */
bool
redrive_open(const Queue *queue, Redrive *redrive)
{
	if (!redrive_find(queue, &redrive->queue) ||
		!storage_open(&redrive->queue, RowExclusiveLock, &redrive->table))
		return false;
	storage_as_owner(redrive->table);
	return true;
}

/* Closes it. */
void
redrive_close(Redrive *redrive)
{
	storage_close(redrive->table, false);
}

/* Puts a message that was removed from its queue into the dead-letter queue. */
void
redrive_insert(Redrive *redrive, const Queue *source, const Message *message,
			   TimestampTz now)
{
	Message		moved = *message;

	moved.id = storage_next_id(redrive->table);
	moved.visible_at = now;
	moved.enqueued_at = now;
	moved.dead_letter_queue_source = cstring_to_text(source->name);
	storage_insert(redrive->table, &moved);
}
