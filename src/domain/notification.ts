/** Notifications: their types and statuses, and which of them an account may cause only so often. */

export const NOTIFICATION_TYPES = [
  'delivery_succeeded',
  'delivery_failed',
  'revocation_succeeded',
  'revocation_failed',
  'registration_succeeded',
  'registration_failed',
  'admin_user_created',
  'admin_password_reset',
  'admin_second_factor_reset',
  'admin_user_changed',
  'expiration_warning',
  'order_rejected',
  'order_quota_exceeded',
  'order_stale_recovered',
  'challenge_failed',
  'csr_validation_failed',
  'account_deactivated',
  'account_revoked',
  'key_rollover_succeeded',
  'authorization_deactivated',
  'alarm',
  'incident',
  'renewal_request',
] as const
export type NotificationType = (typeof NOTIFICATION_TYPES)[number]

/** An administrator asks for it; it has no template and cannot be disabled. */
export const TEST_MAIL = 'test_mail'

export const isNotificationType = (text: string): text is NotificationType =>
  (NOTIFICATION_TYPES as readonly string[]).includes(text)

/** `failed` is tried again while its row says when. */
export const NOTIFICATION_STATUSES = ['pending', 'sent', 'failed'] as const
export type NotificationStatus = (typeof NOTIFICATION_STATUSES)[number]

interface NotificationLimit {
  /** Counted for each recipient of an account. Without an account, for all recipients together. */
  most: number
  withinMs: number
}

const HOUR_MS = 3_600_000

/** Recorded and never sent, because the address may belong to another person. */
export const NEVER_SENT: NotificationType = 'registration_failed'

/** A client that repeats its mistake would fill a mailbox. */
export const NOTIFICATION_LIMITS: Partial<Record<NotificationType, NotificationLimit>> = {
  order_quota_exceeded: { most: 1, withinMs: 24 * HOUR_MS },
  order_rejected: { most: 5, withinMs: HOUR_MS },
  csr_validation_failed: { most: 5, withinMs: HOUR_MS },
  challenge_failed: { most: 5, withinMs: HOUR_MS },
  registration_failed: { most: 10, withinMs: HOUR_MS },
  // A CA that is away fails every revocation of a bulk.
  revocation_failed: { most: 10, withinMs: HOUR_MS },
  // A fault that repeats with every order.
  alarm: { most: 10, withinMs: HOUR_MS },
}

/** Administrators cause it, and a contact may be the address of a stranger. */
export const RENEWAL_REQUESTS: NotificationLimit = { most: 3, withinMs: 24 * HOUR_MS }

/** These do not count towards `notifications.max_per_recipient_per_hour`: about one certificate each, or for administrators. */
export const COUNTED_APART: readonly (NotificationType | typeof TEST_MAIL)[] = [
  TEST_MAIL,
  'expiration_warning',
  'revocation_failed',
  'alarm',
  'incident',
  'renewal_request',
  'admin_user_created',
  'admin_password_reset',
  'admin_second_factor_reset',
  'admin_user_changed',
  NEVER_SENT,
]

/** Values that a template may show. */
export type TemplateValues = Readonly<Record<string, string | number | readonly string[]>>
