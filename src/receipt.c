/*-------------------------------------------------------------------------
 *
 * receipt.c
 *	  Receipt handles.
 *
 * A handle is opaque to its holder: base64 of the queue, the message's id,
 * which receive it was and when, half of the message's id as a tag that cannot
 * be guessed, and the place of the row, which spares a delete the search.  A
 * checksum tells a mangled handle from one whose message is gone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/base64.h"
#include "port/pg_crc32c.h"
#include "utils/builtins.h"

#include "compat.h"
#include "pg_sqs.h"

#define HANDLE_VERSION 1
#define HANDLE_BYTES 42			/* a multiple of 3: base64 needs no padding */
#define HANDLE_CHARS (HANDLE_BYTES / 3 * 4)
#define CHECKED_BYTES (HANDLE_BYTES - 3)

/* Appends the low bytes of a number. */
static uint8 *
put_bytes(uint8 *to, uint64 value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*to++ = (uint8) (value >> (8 * i));
	return to;
}

/* Takes a number of so many bytes. */
static uint64
get_bytes(const uint8 **from, int bytes)
{
	uint64		value = 0;

	for (int i = 0; i < bytes; i++)
		value = (value << 8) | *(*from)++;
	return value;
}

/* The checksum of a handle's bytes, of which 24 bits are kept. */
static uint32
checksum(const uint8 *bytes)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, bytes, CHECKED_BYTES);
	FIN_CRC32C(crc);
	return crc & 0xffffff;
}

/* Half of a message id. */
static uint64
message_tag(const Message *message)
{
	const uint8 *bytes = message->message_id.data + 8;

	return get_bytes(&bytes, 8);
}

/* The handle of a receive. */
text *
receipt_make(const Queue *queue, const Message *message, uint64 row_hint)
{
	uint8		bytes[HANDLE_BYTES];
	uint8	   *next = bytes;
	text	   *handle = palloc(VARHDRSZ + HANDLE_CHARS);

	next = put_bytes(next, HANDLE_VERSION, 1);
	next = put_bytes(next, queue->id, 4);
	next = put_bytes(next, message->receive_count, 4);
	next = put_bytes(next, message->id, 8);
	next = put_bytes(next, message->last_received_at, 8);
	next = put_bytes(next, row_hint, 6);
	next = put_bytes(next, message_tag(message), 8);
	next = put_bytes(next, checksum(bytes), 3);
	Assert(next == bytes + HANDLE_BYTES);
	if (pg_b64_encode(bytes, HANDLE_BYTES, VARDATA(handle), HANDLE_CHARS) !=
		HANDLE_CHARS)
		elog(ERROR, "could not encode receipt handle");
	SET_VARSIZE(handle, VARHDRSZ + HANDLE_CHARS);
	return handle;
}

/* Decodes a handle; false if it is none, or one of another queue. */
static bool
decode_handle(const Queue *queue, const text *handle, Receipt *receipt)
{
	uint8		bytes[HANDLE_BYTES + 3];
	const uint8 *next = bytes;

	if (VARSIZE_ANY_EXHDR(handle) != HANDLE_CHARS ||
		pg_b64_decode(VARDATA_ANY(handle), HANDLE_CHARS, bytes,
					  sizeof(bytes)) != HANDLE_BYTES ||
		get_bytes(&next, 1) != HANDLE_VERSION)
		return false;
	receipt->queue_id = (int32) get_bytes(&next, 4);
	receipt->receive_count = (int32) get_bytes(&next, 4);
	receipt->id = (int64) get_bytes(&next, 8);
	receipt->received_at = (TimestampTz) get_bytes(&next, 8);
	receipt->row_hint = get_bytes(&next, 6);
	receipt->message_tag = get_bytes(&next, 8);
	return get_bytes(&next, 3) == checksum(bytes) &&
		receipt->queue_id == queue->id;
}

/* Fails for a handle that is none, or was made for another message. */
bool
receipt_fail(const text *handle, Failure *failure)
{
	return sqs_fail(failure, ERRCODE_SQS_RECEIPT_HANDLE_IS_INVALID,
					"Use the receipt_handle that a receive from this queue returned, unchanged.",
					"The input receipt handle \"%s\" is not a valid receipt handle.",
					excerpt_text(handle));
}

/* Reads a handle, which must be one of this queue. */
bool
receipt_parse(const Queue *queue, text *handle, Receipt *receipt,
			  Failure *failure)
{
	if (handle == NULL)
		return fail_missing_parameter(failure, "ReceiptHandle");
	return decode_handle(queue, handle, receipt) ||
		receipt_fail(handle, failure);
}

/* Whether a handle is of this very message, not of another with its id. */
bool
receipt_names(const Receipt *receipt, const Message *message)
{
	return receipt->message_tag == message_tag(message);
}
