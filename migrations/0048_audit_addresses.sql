-- What was done from one address: GET /audit-log?ip_address=… (src/admin/audit/audit-store.ts).

CREATE INDEX admin_audit_log_address ON admin_audit_log (ip_address, sequence);
