-- When the CA behind this service would renew a certificate (RFC 9773), and when it is asked next. One row for each
-- certificate of such a CA until it is revoked or has expired. Relied on from release 0.2.

CREATE TABLE upstream_renewals (
  certificate_id uuid PRIMARY KEY,
  backend text NOT NULL,
  -- Absent before the first answer.
  window_start timestamptz,
  window_end timestamptz,
  explanation_url text,
  due_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
CREATE INDEX upstream_renewals_due ON upstream_renewals (due_at);
