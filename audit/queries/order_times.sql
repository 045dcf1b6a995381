-- order_times: when these orders were posted. Index: transfer_order. Lock: none.
SELECT order_no, (extract(epoch FROM created_at) * 1000)::bigint AS at_ms FROM transfer WHERE order_no = ANY($1::text[])
