/*-------------------------------------------------------------------------
 *
 * storage.h
 *	  The layout of a queue's table, for storage.c and catalog.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STORAGE_H
#define STORAGE_H

#include "utils/rel.h"

enum
{
	Anum_message_id = 1,
	Anum_message_visible_at,
	Anum_message_sent_at,
	Anum_message_message_id,
	Anum_message_receive_count,
	Anum_message_visibility_timeout,
	Anum_message_retained_from,
	Anum_message_first_received_at,
	Anum_message_last_received_at,
	Anum_message_sender_id,
	Anum_message_message_group_id,
	Anum_message_message_deduplication_id,
	Anum_message_aws_trace_header,
	Anum_message_dead_letter_queue_source,
	Anum_message_body,
	Anum_message_message_attributes,
	Natts_message = Anum_message_message_attributes
};

/* in storage.c */
extern void storage_check_layout(Relation rel, const char *queue_name);

#endif							/* STORAGE_H */
