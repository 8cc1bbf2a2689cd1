-- The limit of mails by recipient. Relied on from release 0.2; the previous release writes to it and does not read it.
CREATE INDEX notifications_recipient ON notifications (lower(recipient), id);
