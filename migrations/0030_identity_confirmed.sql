-- When a provider has last said who a person is: API tokens of that person end some time after it (docs/decisions/sign-in.md).
-- The release before fills it for new people, and does not renew it; those who are here count as confirmed now.
-- going back: an older release lets API tokens of people who sign in by OpenID Connect live on.
ALTER TABLE admin_user_identities ADD COLUMN confirmed_at timestamptz NOT NULL DEFAULT now();
