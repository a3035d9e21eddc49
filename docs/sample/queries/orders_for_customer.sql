/*
description: Orders of one customer, the newest first.
parameters:
  customer_id: {type: string, pattern: "^cus_[0-9]+$", max_length: 20, description: ID of the customer.}
  since:
    type: string
    pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
    max_length: 10
    optional: true                        # left out, it is NULL
    description: Only those from this day on, such as 2026-11-30.
*/
SELECT id, placed_at, state, amount, currency
  FROM orders
 WHERE tenant = @tenant                   -- bound by Placet, never by the caller
   AND customer_id = @customer_id
   AND (@since IS NULL OR placed_at >= @since::date)
 ORDER BY placed_at DESC
