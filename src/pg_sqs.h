/*-------------------------------------------------------------------------
 *
 * pg_sqs.h
 *	  What more than one file of pg_sqs uses, grouped by the file it is in.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_SQS_H
#define PG_SQS_H

#include "fmgr.h"
#include "datatype/timestamp.h"
#include "nodes/parsenodes.h"
#include "storage/lockdefs.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "errors.h"

#define SQS_SCHEMA "sqs"
#define SQS_MAX_NAME 80			/* characters of a queue's name */
#define SQS_MAX_VISIBILITY_TIMEOUT 43200
#define SQS_MAX_DELAY_SECONDS 900
#define SQS_MAX_WAIT_SECONDS 20
#define SQS_MAX_BATCH_BYTES 1048576
#define SQS_MAX_BATCH_SIZE 10000	/* most that the setting takes */
#define SQS_FIFO_SUFFIX ".fifo"

/* in identity.c */
typedef struct Identity
{
	Oid			user;
	int			security;		/* context */
	int			guc_level;
} Identity;

extern void identity_assume(Oid user, Identity *own);
extern void identity_resume(const Identity *own);

/* in argument.c: arguments of the SQL functions */
extern text *text_argument(FunctionCallInfo fcinfo, int n);
extern char *string_argument(FunctionCallInfo fcinfo, int n);
extern Jsonb *jsonb_argument(FunctionCallInfo fcinfo, int n);
extern int32 int_argument(FunctionCallInfo fcinfo, int n, int32 otherwise);
extern Datum *array_argument(FunctionCallInfo fcinfo, int n,
							 const char *parameter, int *count);
extern text *text_element(Datum element);
extern char *string_element(Datum element);
extern void check_seconds(const char *parameter, int32 value, int32 max);

/* in pg_sqs.c: settings */
extern int	sqs_max_queues;
extern bool sqs_worker;
extern int	sqs_maintenance_interval;
extern int	sqs_max_batch_size;
extern int	sqs_max_inflight;
extern bool sqs_async_receive;
extern int	sqs_cooldown;
extern char *sqs_region;
extern char *sqs_account_id;

/*
 * in catalog.c: the queues as this session remembers them.
 *
 * A caller gets a copy; it stays true as long as the lock taken on the
 * queue's table (storage_open) is held.
 */
typedef struct Queue
{
	char		name[SQS_MAX_NAME + 1];
	int32		id;
	uint64		invalidations;	/* heard of when this was read */
	Oid			relid;			/* the table of its messages */
	Oid			owner;			/* of that table */
	Oid			pkey;			/* index on (id) */
	Oid			due_index;		/* index on (visible_at, id) */
	Oid			sequence;		/* of ids */
	bool		plain;			/* no triggers and no indexes but ours: the
								 * executor is not needed to write */
	bool		row_security;	/* it has policies, which we cannot apply */
	bool		fifo;
	int32		delay_seconds;
	int32		maximum_message_size;
	int32		message_retention_period;
	int32		receive_message_wait_time_seconds;
	int32		visibility_timeout;
	char		dead_letter_queue[SQS_MAX_NAME + 1];	/* "" = none */
	int32		max_receive_count;
} Queue;

typedef struct QueueTable QueueTable;	/* its table, open */
typedef struct CursorScan CursorScan;	/* a receive on its way through it */

extern void catalog_init(void);
extern bool catalog_find(const char *name, Queue *queue);
extern void catalog_get(text *name, Queue *queue);
pg_noreturn extern void report_missing_queue(const char *name);
extern bool catalog_is_current(const Queue *queue);
extern Oid	catalog_relation(const char *name);
extern Oid	catalog_queue_table(int32 id);
extern Oid	catalog_table_owner(Oid relid);
extern uint64 catalog_generation(void);
extern Oid	catalog_owner(void);

/* in catalog_read.c */
extern bool catalog_read(const char *name, Queue *queue);
extern List *catalog_names(const char *prefix, const char *dead_letter_queue);

/* in privilege.c */
extern bool may_count_messages(const Queue *queue);
extern bool owns_queue(const Queue *queue);
extern void check_may_write(const char *call);
extern void check_queue_privilege(const Queue *queue, AclMode mode);
extern void check_message_privilege(const Queue *queue, AclMode mode);
extern void check_queue_owner(const Queue *queue);
extern QueueTable *open_queue_to_write(FunctionCallInfo fcinfo,
									   const char *call, AclMode right,
									   Queue *queue);
extern void check_create_privilege(void);
extern void check_extension_owner(void);

/*
 * in storage.c and storage_write.c: all that touches a queue's table and its
 * indexes.
 */
typedef struct Message
{
	int64		id;
	TimestampTz visible_at;
	TimestampTz sent_at;
	TimestampTz enqueued_at;	/* moved into this queue; 0 = sent to it */
	TimestampTz first_received_at;	/* 0 = never */
	TimestampTz last_received_at;	/* 0 = never */
	int32		receive_count;
	int32		visibility_timeout; /* -1 = the queue's */
	pg_uuid_t	message_id;
	text	   *sender_id;		/* NULL = none, as in those below */
	text	   *message_group_id;
	text	   *message_deduplication_id;
	text	   *aws_trace_header;
	text	   *dead_letter_queue_source;
	text	   *body;
	Jsonb	   *message_attributes;
} Message;

/* a place in the index on (visible_at, id) */
typedef struct Position
{
	TimestampTz visible_at;
	int64		id;
} Position;

#define POSITION_MIN position_at(DT_NOBEGIN, PG_INT64_MIN)
#define POSITION_MAX position_at(DT_NOEND, PG_INT64_MAX)	/* or: none */

static inline Position
position_at(TimestampTz visible_at, int64 id)
{
	Position	position;

	position.visible_at = visible_at;
	position.id = id;
	return position;
}

/* after all that is due by a time */
static inline Position
position_after(TimestampTz time)
{
	return position_at(time, PG_INT64_MAX);
}

static inline Position
position_of(const Message *message)
{
	return position_at(message->visible_at, message->id);
}

static inline bool
position_before(Position a, Position b)
{
	return a.visible_at < b.visible_at ||
		(a.visible_at == b.visible_at && a.id < b.id);
}

static inline Position
position_min(Position a, Position b)
{
	return position_before(b, a) ? b : a;
}

typedef struct Effects Effects;

typedef enum StorageResult
{
	STORAGE_DONE,				/* the row is ours and changed */
	STORAGE_BUSY,				/* another open transaction has it */
	STORAGE_LOCKED,				/* one merely locked it, and will not tell */
	STORAGE_KEPT,				/* a trigger left it as it is */
	STORAGE_GONE				/* this version of it is no more */
} StorageResult;

typedef enum RowState
{
	ROW_FREE,					/* from here on, each is further gone */
	ROW_LOCKED,					/* but not changed */
	ROW_CLAIMED,				/* changed or deleted by an open transaction */
	ROW_GONE					/* by one that committed */
} RowState;

extern bool storage_open(Queue *queue, LOCKMODE lockmode, QueueTable **table);
extern void storage_close(QueueTable *table, bool unlock);
extern void storage_as_owner(QueueTable *table);
extern Effects *storage_effects(QueueTable *table);
extern int64 storage_next_id(QueueTable *table);
extern void storage_insert(QueueTable *table, const Message *message);
extern void storage_insert_many(QueueTable *table, const Message *messages, int n);
extern void storage_snapshot(QueueTable *table);
extern void storage_scan_begin(QueueTable *table, Position from, TimestampTz until);
extern void storage_set_walker(QueueTable *table, const CursorScan *walker);
extern void storage_scan_by_id(QueueTable *table);
extern bool storage_scan_next(QueueTable *table, Message *message);
extern void storage_scan_end(QueueTable *table);
extern TimestampTz storage_next_due(QueueTable *table, TimestampTz after);
extern bool storage_find(QueueTable *table, int64 id, uint64 hint, Message *message);
extern StorageResult storage_update(QueueTable *table, Message *message, bool wait);
extern StorageResult storage_delete(QueueTable *table, Message *message, bool wait);
extern RowState storage_row_state(QueueTable *table);
extern uint64 storage_row_hint(const QueueTable *table);

/* in receipt.c: receipt handles */
typedef struct Receipt
{
	int32		queue_id;
	int32		receive_count;
	int64		id;
	TimestampTz received_at;
	uint64		row_hint;		/* where the row was */
	uint64		message_tag;	/* of its message_id */
} Receipt;

extern text *receipt_make(const Queue *queue, const Message *message, uint64 row_hint);
extern bool receipt_parse(const Queue *queue, text *handle, Receipt *receipt,
						  Failure *failure);
extern bool receipt_names(const Receipt *receipt, const Message *message);
extern bool receipt_fail(const text *handle, Failure *failure);

/*
 * in body.c: what a body and an id may hold.
 *
 * Sizes, MD5s and the allowed characters are those of a string's UTF-8 form;
 * where the database has it so already, that is the string itself.
 */
extern const char *utf8_form(const char *string, int *length);
extern bool check_characters(const char *utf8, int length, uint32 *offender);
extern bool check_body(const char *utf8, int length, Failure *failure);
extern bool check_identifier(const char *parameter, const char *value,
							 int length, Failure *failure);
extern const char *excerpt(const char *value, int length);
extern const char *excerpt_text(const text *value);

#define SQS_CHARACTERS \
	"#x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]"

/* in attribute_syntax.c: names, types and values of message attributes */
typedef enum AttributeBase
{
	ATTRIBUTE_STRING,
	ATTRIBUTE_NUMBER,
	ATTRIBUTE_BINARY
} AttributeBase;

typedef struct Bytes
{
	const char *data;
	int			length;
} Bytes;

extern const char *const attribute_base_names[];

extern int	count_characters(Bytes utf8);
extern bool attribute_base(Bytes type, AttributeBase *base);
extern const char *attribute_name_problem(Bytes name);
extern bool is_attribute_number(Bytes string);
extern bool decode_base64(const char *string, int length, Bytes *bytes);

/* in md5.c */
extern text *md5_hex(const void *data, int length);

/* in message_attribute.c: user attributes of a message */
typedef struct MessageAttributes
{
	Jsonb	   *canonical;		/* in the AWS form; NULL = no attributes */
	text	   *md5;			/* NULL as well then */
	int			size;			/* what they add to the message's size */
} MessageAttributes;

extern bool message_attributes_parse(Jsonb *input,
									 MessageAttributes *attributes,
									 Failure *failure);
extern bool check_trace_header(text *value, Failure *failure);
extern bool message_system_attributes_parse(Jsonb *input,
											text **aws_trace_header,
											Failure *failure);

/*
 * in batch.c: the ten-entry calls.
 *
 * batch_parse checks shape and format of each entry's Id and that it has only
 * known members; batch_check that ids are distinct and entries not too many.
 * The check of a batch's total size stands between the two.
 */
typedef struct BatchEntry
{
	const char *id;
	JsonbContainer *object;		/* the whole entry */
	Failure		failure;		/* of this entry */
} BatchEntry;

typedef struct BatchResult
{
	pg_uuid_t  *message_id;		/* NULL = none, as in those below */
	text	   *sequence_number;
	text	   *md5_of_message_body;
	text	   *md5_of_message_attributes;
} BatchResult;

extern BatchEntry *batch_parse(Jsonb *entries, const char *request_entry,
							   const char *const *members, int *n);
extern void batch_check(const BatchEntry *entries, int n);
extern bool batch_text(BatchEntry *entry, const char *member, text **value);
extern bool batch_int(BatchEntry *entry, const char *member, int32 *value,
					  bool *isnull);
extern bool batch_jsonb(BatchEntry *entry, const char *member, Jsonb **value);
#define BATCH_RESULT_COLUMNS 7	/* of type sqs_batch_result */

extern void batch_return(FunctionCallInfo fcinfo, const BatchEntry *entries,
						 const BatchResult *results, int n);

/* in result.c: sets of rows; natts is what the caller's arrays hold */
extern void result_begin(FunctionCallInfo fcinfo, int natts);
extern void result_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls);
extern void result_names(FunctionCallInfo fcinfo, const List *names);

/* in message_result.c: messages returned */
extern void message_result_begin(FunctionCallInfo fcinfo);
extern void message_result_row(FunctionCallInfo fcinfo, const Message *m, text *handle);

/* in attribute.c: queue attributes */
extern bool parse_integer(const char *value, int32 *result);

/* in redrive.c: dead-letter queues */
typedef struct Redrive
{
	Queue		queue;			/* the dead-letter queue */
	QueueTable *table;
} Redrive;

extern bool redrive_is_due(const Queue *queue, const Message *message);
extern bool redrive_find(const Queue *queue, Queue *target);
extern bool redrive_open(const Queue *queue, Redrive *redrive);
extern void redrive_close(Redrive *redrive);
extern void redrive_insert(Redrive *redrive, const Queue *source,
						   const Message *message, TimestampTz now);

/* in receive.c */

/* in message.c: what the times and counts of a message mean */
extern TimestampTz message_expiry(const Queue *queue, const Message *message);
extern bool message_is_expired(const Queue *queue, const Message *message,
							   TimestampTz now);
extern int64 message_lease(const Queue *queue, const Message *message,
						   int32 seconds);
extern void message_count_receives(Message *message, int n, TimestampTz now);

/*
 * in shmem.c: what sessions share, if the extension is preloaded.
 *
 * No answer depends on it.  Without it, and for a queue that found no slot,
 * the calls of these four files do nothing, or nothing that others see.
 */
typedef enum Metric
{
	METRIC_SENT,
	METRIC_SENT_BYTES,
	METRIC_DEDUPLICATED,
	METRIC_RECEIVED,
	METRIC_EMPTY_RECEIVES,
	METRIC_DELETED,
	METRIC_VISIBLE,				/* from here on gauges: messages there are */
	METRIC_NOT_VISIBLE,
	METRIC_DELAYED,
	METRIC_OLDEST				/* since when the oldest is there; 0 = not
								 * known; only set, never added to */
} Metric;

#define METRIC_COUNT (METRIC_OLDEST + 1)
#define METRIC_FIRST_GAUGE METRIC_VISIBLE

/* looking at all messages of a queue may take one part in so many of the time */
#define SQS_LOOK_FACTOR 100

extern void shmem_init(void);
extern void shmem_drop(Oid relid);
extern void shmem_forget_database(Oid dboid);

/* in shmem_metrics.c: the metrics kept there */
extern bool shmem_read_metrics(Oid relid, int64 *values, TimestampTz *since);
extern void shmem_reset_counters(Oid relid);
extern uint64 shmem_changes(Oid relid);
extern bool shmem_count_is_due(Oid relid, TimestampTz now);
extern uint64 shmem_begin_count(Oid relid);
extern void shmem_set_gauges(Oid relid, const int64 *values, uint64 changes,
							 TimestampTz next_due);

/* in cursor.c: where a receive starts to look; the file's head shows how */
struct CursorScan
{
	int			slot;			/* the queue's; -1 = it has none */
	uint64		generation;		/* of the slot */
	int			cell;			/* -1 = none, so the cursor stays */
	bool		full;			/* looks at everything */
	TimestampTz began;			/* if full */
};

extern Position cursor_scan_start(CursorScan *scan, Oid relid, bool full);
extern void cursor_scan_finish(CursorScan *scan, Position walked_to);
extern void cursor_scan_abandon(CursorScan *scan);
extern void cursor_scan_takes(const CursorScan *scan, int64 id);
extern bool cursor_is_taken(const CursorScan *scan, int64 id, TransactionId xid);
extern bool cursor_heal_is_due(const CursorScan *scan);
extern bool cursor_position(Oid relid, Position *position);
extern void cursor_report(Oid relid, Position position, int receivable);

/*
 * in xact.c: what a transaction did to queues, told when it ends.
 *
 * Effects are those of one subtransaction on one queue.  Get them, and note
 * the positions, before a row is touched; all that can fail is done then.
 * Count the messages after it.
 */
typedef struct Wakes
{
	int			receivable;		/* messages there are to receive at once */
	TimestampTz due;			/* when the next is; DT_NOEND = none */
} Wakes;

struct Effects
{
	Oid			relid;			/* the queue's table */
	Position	at_commit;		/* lowest position that commit makes count */
	Position	at_abort;		/* lowest that counts again after abort */
	Position	own;			/* lowest at_commit no own receive has passed */
	Wakes		commit;			/* whom commit has to wake */
	Wakes		abort;			/* whom abort has */
	int64		metrics[METRIC_COUNT];	/* to add at commit */

	/* what xact.c alone uses */
	int			level;			/* of nested transactions */
	int			pin;			/* kept for PREPARE; -1 = none */
	bool		dropped;		/* commit ends the queue */
	struct Effects *next;

	/* and lost.c */
	struct LostChunk *lost;		/* receives that abort takes back */
};

extern void xact_init(void);
extern Effects *xact_effects(Oid relid);
extern Position xact_lowest_own(Oid relid);
extern void xact_own_walked(Oid relid, Position walked_to);
extern bool xact_own_metrics(Oid relid, int64 *values);
extern void xact_receive_enter(void);
extern void xact_receive_exit(bool only_leases);
extern void effects_note(Effects *effects, Position at_commit,
						 Position at_abort);
extern void wakes_add(Wakes *wakes, TimestampTz visible_at, TimestampTz now);

/* in lost.c: receives that were rolled back, until they are counted */
#define LOST_AT_ONCE 256		/* that a list holds */

typedef struct LostList
{
	int			n;
	int64	   *ids;			/* of their messages */
} LostList;

extern bool lost_is_possible(Oid relid);
extern void lost_list(LostList *list, Oid relid);
extern int	lost_count(const LostList *list, int64 id);
extern void effects_lose_receive(Effects *effects, int64 id);
extern int	lost_take(Effects *effects, int64 id);
extern void lost_put_back(Effects *effects, int n);
extern void lost_forget_database(Oid dboid);

/* in wait.c: long polling; the file's head shows the loop */
typedef struct WaitState
{
	int			nap;			/* milliseconds to the next look, if polling */
	bool		enlisted;		/* others wake us */
} WaitState;

extern void wait_begin(WaitState *state, Oid relid, bool takes);
extern void wait_prepare(WaitState *state);
extern bool wait_sleep(WaitState *state, TimestampTz deadline,
					   TimestampTz next_due);
extern void wait_end(WaitState *state, bool more);

/* in metrics.c: how many messages there are */
extern Metric metrics_gauge_of(TimestampTz visible_at, int32 receive_count,
							   TimestampTz now);
extern void metrics_gauges(Queue *queue, int64 *values);
extern int	metrics_in_flight_left(const Queue *queue, QueueTable *table);
extern void metrics_note_taken(Oid relid);
pg_noreturn extern void metrics_report_over_limit(void);
extern void metrics_refresh(Queue *queue);

/* in launcher.c: background workers */
extern void launcher_init(void);

/* in worker_slot.c */
extern void worker_announce_use(void);
extern bool worker_wake(void);

#endif							/* PG_SQS_H */
