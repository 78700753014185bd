-- Message attributes: both forms, every rule, the digest

CREATE FUNCTION error_of(attributes jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	RETURN 'no error: ' || coalesce(sqs_md5_of_message_attributes(attributes), 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', sqlstate || ' ' || sqlerrm, 'HINT ' || nullif(hint, ''));
END $$;

-- the digests that Amazon SQS gives
CREATE TABLE vector (md5 text, attributes jsonb);
INSERT INTO vector VALUES
	('a45daa70926828a2f0a1db3418e6feb4', '{"k": {"DataType": "String", "StringValue": "x"}}'),
	('adb59cd4678ea5a855436b949cd07ab6', '{"MyAttribute": {"DataType": "String", "StringValue": "foobar"}}'),
	('ae7155c6026991b6d54b11589678bf9c', '{"Foo": {"DataType": "String", "StringValue": "Bar"}}'),
	('4c360f3fdafd970e05fae2f149d997f5', '{"Help.Me": {"DataType": "String", "StringValue": "Me"}, "Hello": {"DataType": "String", "StringValue": "There"}, "General": {"DataType": "String", "StringValue": "Kenobi"}}'),
	('fca026605781cb4126a1e9044df24232', '{"Hello": {"DataType": "String", "StringValue": "There"}, "General": {"DataType": "String", "StringValue": "Kenobi"}}'),
	('a311262e065454b75da111d535b8dacd', '{"Hello": {"DataType": "String", "StringValue": "There"}}'),
	('83fee93c1bcd8b9a5a923ffacdc636c7', '{"Hello": {"DataType": "String", "StringValue": "There"}, "Help.Me": {"DataType": "String", "StringValue": "Me"}}'),
	('235c5c510d26fb653d073faed50ae77c', '{"timestamp": {"DataType": "Number", "StringValue": "1493147359900"}}'),
	('8cbe4db156db8a94db8b801b7addb984', jsonb_build_object('attr1', jsonb_build_object('DataType', 'Binary', 'BinaryValue',
		replace(encode(E'traceparent\\03600-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01'::bytea, 'base64'), E'\n', '')))),
	('36655e7e9d7c0e8479fa3f3f42247ae7', '{"SOME_Valid.attribute-Name": {"DataType": "Number", "StringValue": "1493147359900"}}'),
	('2e2e4876d8e0bd6b8c2c8f556831c349', '{"timestamp": {"DataType": "Number.java.lang.Long", "StringValue": "1493147359900"}}'),
	('9e05cca738e70ff6c6041e82d5e77ef1', '{"somevalue": {"DataType": "String.custom", "StringValue": "somevalue"}}'),
	('797ab158d73dcb5242dedc4412c8e855', '{"UserId": {"DataType": "Number.bigint", "StringValue": "1234567890123456789012"}}'),
	('5ae4d5d7636402d80f4eb6d213245a88', '{"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"}}'),
	-- the short form
	('a45daa70926828a2f0a1db3418e6feb4', '{"k": "x"}'),
	('4c360f3fdafd970e05fae2f149d997f5', '{"Help.Me": "Me", "Hello": "There", "General": "Kenobi"}'),
	('235c5c510d26fb653d073faed50ae77c', '{"timestamp": 1493147359900}'),
	-- both, and members that are null
	('fca026605781cb4126a1e9044df24232', '{"Hello": "There", "General": {"DataType": "String", "StringValue": "Kenobi", "BinaryValue": null, "StringListValues": null}}');
SELECT md5 = sqs_md5_of_message_attributes(attributes) AS same, md5, attributes FROM vector;

-- no attributes, no digest
SELECT sqs_md5_of_message_attributes(NULL), sqs_md5_of_message_attributes('{}'), sqs_md5_of_message_attributes('null'),
	sqs_md5_of_message_attributes(message_attributes => '{ }');

-- an independent digest over ten attributes of all kinds
CREATE FUNCTION digest(attributes jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT md5(string_agg(
		int4send(octet_length(name)) || convert_to(name, 'UTF8')
		|| int4send(octet_length(type)) || convert_to(type, 'UTF8')
		|| CASE WHEN type LIKE 'Binary%' THEN '\x02'::bytea ELSE '\x01' END
		|| int4send(octet_length(content)) || content, '' ORDER BY name COLLATE "C"))
	FROM (SELECT key AS name, value ->> 'DataType' AS type,
			CASE WHEN value ? 'BinaryValue' THEN decode(value ->> 'BinaryValue', 'base64')
				ELSE convert_to(value ->> 'StringValue', 'UTF8') END AS content
		FROM jsonb_each(attributes)) AS attribute
$$;
CREATE TABLE ten (attributes jsonb);
INSERT INTO ten SELECT jsonb_object_agg(name, CASE
		WHEN n % 3 = 0 THEN jsonb_build_object('DataType', 'Binary.' || n, 'BinaryValue', encode(int8send(n), 'base64'))
		WHEN n % 3 = 1 THEN jsonb_build_object('DataType', 'Number', 'StringValue', n::text)
		ELSE jsonb_build_object('DataType', 'String.é', 'StringValue', 'grüße €😀' || n) END)
	FROM unnest('{a,B,aa,é,Z,zz,a.a,_,-,ÿa}'::text[]) WITH ORDINALITY AS t(name, n);
SELECT digest(attributes) = sqs_md5_of_message_attributes(attributes) AS same FROM ten;

-- how many
SELECT error_of(attributes || '{"one.more": 11}') FROM ten;

-- shape
SELECT error_of('[]');
SELECT error_of('[{"k": "v"}]');
SELECT error_of('"k"');
SELECT error_of('5');
SELECT error_of('{"k": true}');
SELECT error_of('{"k": null}');
SELECT error_of('{"k": ["v"]}');
SELECT error_of('{"k": {"DataType": "String", "StringValue": "v", "Colour": "red"}}');
SELECT error_of('{"k": {"DataType": "String", "stringValue": "v"}}');
SELECT error_of('{"k": {"DataType": "String", "StringValue": 5}}');
SELECT error_of('{"k": {"DataType": "Number", "StringValue": 5}}');
SELECT error_of('{"k": {"DataType": ["String"], "StringValue": "v"}}');
SELECT error_of('{"k": {"DataType": "String", "StringValue": {"a": "v"}}}');
SELECT error_of('{"k": {"DataType": "String", "StringListValues": ["v"]}}');
SELECT error_of('{"k": {"DataType": "Binary", "BinaryListValues": ["dg=="]}}');
SELECT error_of('{"k": {"DataType": "String", "BinaryValue": "dg=="}}');
SELECT error_of('{"k": {"DataType": "Number", "StringValue": "1", "BinaryValue": "dg=="}}');
SELECT error_of('{"k": {"DataType": "Binary", "StringValue": "v"}}');

-- names
SELECT name, error_of(jsonb_build_object(name, 'v')) FROM unnest(ARRAY['', 'a b', 'a!', 'a"', 'a§', 'a(', 'a?', 'a/b', 'a:b',
	E'a\tb', 'a×b', 'a÷', E'a\u2028', '.a', 'a.', 'a..b', '.', 'AWS.a', 'aws.a', 'aWs.', 'Amazon.a', 'AMAZON.A', 'Aws.Amazon']) AS name;
SELECT replace(error_of(jsonb_build_object(repeat('n', 257), 'v')), repeat('n', 257), 'n...');
SELECT replace(error_of(jsonb_build_object(repeat('é', 257), 'v')), repeat('é', 257), 'é...');
-- allowed ones, among them letters beyond ASCII
SELECT name, left(error_of(jsonb_build_object(name, 'v')), 9) FROM unnest(ARRAY['a', '_', '-', '0', 'a.b.c', 'attr.1øßä', 'имя', '名前', 'aws', 'AWSx.y', 'Amazonian.x', 'AWS', 'Amazon', '𝒜']) AS name;
SELECT left(error_of(jsonb_build_object(repeat('n', 256), 'v', repeat('é', 256), 'v')), 9);

-- types
SELECT error_of('{"k": {"StringValue": "v"}}');
SELECT error_of('{"k": {}}');
SELECT error_of('{"k": {"DataType": null, "StringValue": "v"}}');
SELECT type, error_of(jsonb_build_object('k', jsonb_build_object('DataType', type, 'StringValue', '1')))
FROM unnest(ARRAY['', 'string', 'STRING', 'Text', 'Stringy', 'Strin', '.String', 'String ', ' String', 'Number,x', 'StringList', 'BinaryList', E'String.\u0001', E'Number.a\u001fb']) AS type;
SELECT type, left(error_of(jsonb_build_object('k', jsonb_build_object('DataType', type, 'StringValue', '1'))), 9)
FROM unnest(ARRAY['String', 'Number', 'String.a', 'String.a.b', 'Number.int', 'String.größe mit leerzeichen', 'String.']) AS type;
SELECT left(error_of(jsonb_build_object('k', jsonb_build_object('DataType', 'String.' || repeat('é', 249), 'StringValue', '1'))), 9);
SELECT error_of(jsonb_build_object('k', jsonb_build_object('DataType', 'String.' || repeat('é', 250), 'StringValue', '1')));

-- empty values
SELECT error_of('{"k": ""}');
SELECT error_of('{"k": {"DataType": "String", "StringValue": ""}}');
SELECT error_of('{"k": {"DataType": "String.x"}}');
SELECT error_of('{"k": {"DataType": "String", "StringValue": null}}');
SELECT error_of('{"k": {"DataType": "Number", "StringValue": ""}}');
SELECT error_of('{"k": {"DataType": "Binary", "BinaryValue": ""}}');
SELECT error_of('{"k": {"DataType": "Binary"}}');

-- characters of a string
SELECT error_of('{"k": "a\u0001"}');
SELECT error_of('{"k": {"DataType": "String", "StringValue": "\u001f"}}');
SELECT error_of(jsonb_build_object('k', 'a' || chr(x'FFFE'::int)));
SELECT error_of(jsonb_build_object('k', repeat('long enough ', 3) || chr(x'FFFF'::int)));
SELECT left(error_of(jsonb_build_object('k', E'\t\n\r \u007f\u0080\ud7ff\ue000\ufffd' || chr(65536) || chr(1114111))), 9);

-- numbers
CREATE FUNCTION number(value text) RETURNS text LANGUAGE sql AS
$$ SELECT error_of(jsonb_build_object('k', jsonb_build_object('DataType', 'Number', 'StringValue', value))) $$;
SELECT left(n, 50) AS n, left(number(n), 9) FROM unnest(ARRAY['0', '-0', '+1', '1.', '.5', '-.5', '007', '1.50', '1e5', '1E+5', '-1.5e-5', '1234567890123456789012',
	repeat('9', 38), '-' || repeat('9', 38), '0.' || repeat('9', 38), '000' || repeat('9', 38) || '000', '0.00' || repeat('7', 38) || '00',
	'1e126', '-1e126', '10e125', '0.1e127', '9.9e125', '1e-128', '0.01e-126', '0e999999999999', '1' || repeat('0', 126), '0.' || repeat('0', 127) || '1']) AS n;
SELECT left(n, 50) AS n, split_part(number(n), E'\n', 1) FROM unnest(ARRAY['one', ' 1', '1 ', '1,5', '1.2.3', '--1', '+-1', '.', '-', '+', '-.', 'e5', '.e5', '1e', '1e+', '1e-', '1e1.5', '0x10', '1_000', 'NaN', 'Infinity', '１', E'1\n',
	repeat('9', 39), '0.' || repeat('9', 39), '1' || repeat('0', 37) || '.1',
	'1.1e126', '2e126', '1e127', '1e1000000000', '9.9e-129', '0.1e-128', '1e-99999999999999999999', '0.' || repeat('0', 128) || '1', '1' || repeat('0', 127)]) AS n;
-- a JSON number is taken with the digits it has
SELECT sqs_md5_of_message_attributes('{"n": 1.50}') = digest('{"n": {"DataType": "Number", "StringValue": "1.50"}}') AS same,
	sqs_md5_of_message_attributes('{"n": 1e3}') = digest('{"n": {"DataType": "Number", "StringValue": "1000"}}') AS same,
	sqs_md5_of_message_attributes('{"n": -12345678901234567890123456789012345678}') = digest('{"n": {"DataType": "Number", "StringValue": "-12345678901234567890123456789012345678"}}') AS same;
SELECT error_of('{"n": 1e127}');
SELECT error_of('{"n": 123456789012345678901234567890123456789}');
SELECT error_of('{"n": 1e-129}');

-- base64
SELECT b, error_of(jsonb_build_object('k', jsonb_build_object('DataType', 'Binary', 'BinaryValue', b)))
FROM unnest(ARRAY['AA==', 'AAE=', 'AAEC', 'AAECAw==', '+/+/', 'A', 'AA', 'AAA', 'AA=', 'AB==', 'AAB=', 'A===', '====', 'AA==AA==', 'AA==AAEC', 'AA=A', 'AA A', E'AAEC\n', '-_-_', 'é===', '!AAA']) AS b;

-- a name that is very long is not repeated in full
SELECT length(error_of(jsonb_build_object(repeat('x', 100000), 'v')));

-- it may stand in an index and in a parallel plan
SELECT provolatile, proparallel FROM pg_catalog.pg_proc WHERE proname = 'sqs_md5_of_message_attributes';

DROP TABLE vector, ten;
DROP FUNCTION number, digest, error_of;
