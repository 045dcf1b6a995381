-- orders: whose history some transfers stand in, and their amounts. $1 order numbers. Index: transfer_order. Lock: none.
SELECT order_no, user_account, amount_fen FROM transfer WHERE order_no = ANY($1::text[])
