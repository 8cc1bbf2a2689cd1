/** Values for a look at a template: at the start, in `chancery mail preview`, and in tests. */

import { EVENT_KINDS, type OccurredEvent } from '../../domain/event.ts'
import { EVENT_SAMPLES, sampleEvent } from '../../domain/event-samples.ts'
import type { NotificationType, TemplateValues } from '../../domain/notification.ts'
import { type Addressed, noticeOf } from './notices.ts'

const COMMON = { server_url: 'https://acme.example.com', timestamp: '2026-11-23T12:00:00Z' }

const ABOUT: Addressed = {
  holder: { id: EVENT_SAMPLES['account.revocation'].account_id, contacts: [], revoked_kid: 'team-a' },
  user: { username: 'alice', email: 'alice@example.com', role: 'auditor', createdBy: 'admin' },
}

const RESETS = (['user.reset_password', 'user.reset_second_factor'] as const).map(
  (action): OccurredEvent => ({
    ...sampleEvent('admin.action'),
    kind: 'admin.action',
    data: { ...EVENT_SAMPLES['admin.action'], action },
  }),
)

const CHANGE: OccurredEvent = {
  ...sampleEvent('admin.action'),
  kind: 'admin.action',
  data: { ...EVENT_SAMPLES['admin.action'], action: 'user.add_passkey', details: { name: 'blue key' } },
}

/** No event causes it: an administrator sends it. */
const INCIDENT: TemplateValues = {
  revoked: 1,
  leaked: 1,
  cause: 'keyCompromise: somebody else has the key',
  certificates: 2,
  more: 0,
  domains: ['www.example.com', 'example.com'],
  summary: 'www.example.com and example.com',
  remark: 'Call the service desk with questions.',
}

/** An administrator sends it, too. */
const RENEWAL_REQUEST: TemplateValues = {
  certificates: 2,
  more: 0,
  domains: ['www.example.com', 'mail.example.com'],
  lines: ['www.example.com, valid until 2026-12-01 09:30 UTC', 'mail.example.com, valid until 2026-12-04 11:00 UTC'],
  summary: 'www.example.com, mail.example.com',
}

export function sampleOf(type: NotificationType): TemplateValues {
  if (type === 'incident') return { ...COMMON, ...INCIDENT }
  if (type === 'renewal_request') return { ...COMMON, ...RENEWAL_REQUEST }
  const events = [...EVENT_KINDS.map(sampleEvent), ...RESETS, CHANGE]
  const notice = events.map(noticeOf).find((one) => one?.type === type)
  return { ...COMMON, ...notice?.values(ABOUT) }
}
