-- An intent that the signer has surely not signed ends without a revocation. Relied on from release 0.2; the release before
-- revokes such a serial number unseen.

-- The instance that knows it; negative while that one has the signer asked again, NULL where nobody knows. It counts only
-- beside the same instance_id, which every release sets when it takes an intent over.
ALTER TABLE issuance_intents ADD COLUMN unsigned_by integer;
