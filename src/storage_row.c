/*-------------------------------------------------------------------------
 *
 * storage_row.c
 *	  The row of a queue's table that was found last: what is in it, where it
 *	  is, and who has it.
 *
 * Who has a row is read from the row itself, under the lock of its page; it
 * may have changed when the answer is used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "storage/bufmgr.h"

#include "compat.h"
#include "pg_sqs.h"
#include "storage.h"

/* Where the row in table->slot is in the index on (visible_at, id). */
Position
storage_row_position(QueueTable *table)
{
	bool		isnull;
	Datum		visible_at = slot_getattr(table->slot, Anum_message_visible_at,
										  &isnull);
	Datum		id = slot_getattr(table->slot, Anum_message_id, &isnull);

	return position_at(DatumGetTimestampTz(visible_at), DatumGetInt64(id));
}

/* Reads the row in table->slot; its pointers stay good until the next row. */
void
storage_read(QueueTable *table, Message *m)
{
	TupleTableSlot *slot = table->slot;
	Datum	   *values = slot->tts_values;
	bool	   *nulls = slot->tts_isnull;

	slot_getallattrs(slot);
#define COLUMN(name) values[Anum_message_##name - 1]
#define IS_NULL(name) nulls[Anum_message_##name - 1]
#define TIME(name) (IS_NULL(name) ? 0 : DatumGetTimestampTz(COLUMN(name)))
#define POINTER(name) (IS_NULL(name) ? NULL : (void *) DatumGetPointer(COLUMN(name)))
	m->id = DatumGetInt64(COLUMN(id));
	m->visible_at = TIME(visible_at);
	m->sent_at = TIME(sent_at);
	if (IS_NULL(message_id))	/* its owner can have it so */
		memset(&m->message_id, 0, UUID_LEN);
	else
		m->message_id = *DatumGetUUIDP(COLUMN(message_id));
	m->receive_count = DatumGetInt32(COLUMN(receive_count));
	m->visibility_timeout =
		IS_NULL(visibility_timeout) ? -1 : DatumGetInt32(COLUMN(visibility_timeout));
	m->enqueued_at = TIME(enqueued_at);
	m->first_received_at = TIME(first_received_at);
	m->last_received_at = IS_NULL(last_received_at) ?
		m->first_received_at : TIME(last_received_at);
	m->sender_id = POINTER(sender_id);
	m->message_group_id = POINTER(message_group_id);
	m->message_deduplication_id = POINTER(message_deduplication_id);
	m->aws_trace_header = POINTER(aws_trace_header);
	m->dead_letter_queue_source = POINTER(dead_letter_queue_source);
	m->body = POINTER(body);
	m->message_attributes = POINTER(message_attributes);
#undef COLUMN
#undef IS_NULL
#undef TIME
#undef POINTER
}

/* What open transactions, also our own, do with the row found last. */
RowState
storage_row_state(QueueTable *table)
{
	BufferHeapTupleTableSlot *slot = (BufferHeapTupleTableSlot *) table->slot;
	RowState	state = ROW_CLAIMED;

	if (!TTS_IS_BUFFERTUPLE(table->slot))
		return ROW_LOCKED;
	LockBuffer(slot->buffer, BUFFER_LOCK_SHARE);
	switch (HeapTupleSatisfiesUpdate(slot->base.tuple,
									 GetCurrentCommandId(false), slot->buffer))
	{
		case TM_Ok:
			state = ROW_FREE;
			break;
		case TM_BeingModified:
			if (HeapTupleHeaderIsOnlyLocked(slot->base.tuple->t_data))
				state = ROW_LOCKED;
			break;
		case TM_Updated:
		case TM_Deleted:
			state = ROW_GONE;
			break;
		default:
			break;
	}
	LockBuffer(slot->buffer, BUFFER_LOCK_UNLOCK);
	return state;
}

/* Who has merely locked the row found last; invalid if none, or many, have. */
TransactionId
storage_row_locker(QueueTable *table)
{
	BufferHeapTupleTableSlot *slot = (BufferHeapTupleTableSlot *) table->slot;
	HeapTupleHeader header;
	TransactionId xid = InvalidTransactionId;

	if (!TTS_IS_BUFFERTUPLE(table->slot))
		return xid;
	header = slot->base.tuple->t_data;
	LockBuffer(slot->buffer, BUFFER_LOCK_SHARE);
	if (!(header->t_infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI)) &&
		HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
		xid = HeapTupleHeaderGetRawXmax(header);
	LockBuffer(slot->buffer, BUFFER_LOCK_UNLOCK);
	return xid;
}

/* Where the row found last is, for a receipt handle. */
uint64
storage_row_hint(const QueueTable *table)
{
	const ItemPointerData *tid = &(table->new_slot != NULL ?
								   table->new_slot : table->slot)->tts_tid;

	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}
