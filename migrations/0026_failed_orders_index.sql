-- concurrently
-- Orders that have failed, also those of one account. No issuance writes it: an order that gets its certificate has no error.
-- going back: nothing is missed.
CREATE INDEX CONCURRENTLY orders_failed ON orders (id, account_id) WHERE error IS NOT NULL;
