/**
 * The words of notifications: Jinja templates in files, an operator's own first.
 *
 * A template is an expression over the values and cannot run code. HTML is escaped here, because the
 * interpreter does not. A template of the operator that fails gives way to ours.
 */

import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { Template } from '@huggingface/jinja'
import { EVENT_KINDS, type OccurredEvent } from '../../domain/event.ts'
import { EVENT_SAMPLES, sampleEvent } from '../../domain/event-samples.ts'
import { NOTIFICATION_TYPES, type NotificationType, type TemplateValues } from '../../domain/notification.ts'
import { INSTALLATION } from '../../shared/lib/program-files.ts'
import { type Addressed, noticeOf } from './notices.ts'

const OURS = path.join(INSTALLATION, 'src/events/templates')

/** RFC 5322 §2.1.1 allows lines of 998; lists of mails show far less. */
const MAX_SUBJECT = 199

export interface RenderedMail {
  /** One line of at most 199 characters. */
  subject: string
  text: string
  html: string
}

type Part = 'subject.txt' | 'body.txt' | 'body.html'
type Parts = Partial<Record<Part, Template>>
const PARTS: readonly Part[] = ['subject.txt', 'body.txt', 'body.html']

export class MailTemplates {
  readonly #ours = new Map<NotificationType, Parts>()
  readonly #custom = new Map<NotificationType, Parts>()
  readonly #layout: Readonly<Record<'text' | 'html', string>>
  readonly #onBroken: (file: string, error: unknown) => void

  /**
   * Renders every template of the operator once, so that a broken one is known at the start.
   * @param folder the operator's; @param onBroken told of a template of the operator that fails
   */
  constructor(folder: string | null, onBroken: (file: string, error: unknown) => void) {
    this.#onBroken = onBroken
    this.#layout = { text: read(OURS, 'layout.txt'), html: read(OURS, 'layout.html') }
    for (const type of NOTIFICATION_TYPES) {
      this.#ours.set(
        type,
        Object.fromEntries(PARTS.map((part) => [part, new Template(read(OURS, nameOf(type, part)))])),
      )
      if (folder !== null) this.#custom.set(type, this.#compile(folder, type))
    }
  }

  render(type: NotificationType, values: TemplateValues): RenderedMail {
    const subject = oneLine(this.#part(type, 'subject.txt', values) ?? '')
    const shown = { ...values, subject }
    const frame = {
      ...shown,
      at: String(values.timestamp ?? '')
        .replace('T', ' ')
        .replace('Z', ' UTC'),
    }
    const html = this.#part(type, 'body.html', escaped(shown))
    const text = this.#part(type, 'body.txt', shown)
    const custom = this.#custom.get(type)
    return {
      subject,
      html: custom?.['body.html'] ? html : filled(this.#layout.html, { ...escaped(frame), content: html.trim() }),
      // An operator who has only an HTML body means it for readers of text, too.
      text: custom?.['body.txt']
        ? text
        : custom?.['body.html']
          ? withoutTags(html)
          : filled(this.#layout.text, { ...frame, content: text.trim() }),
    }
  }

  #part(type: NotificationType, part: Part, values: TemplateValues): string {
    const custom = this.#custom.get(type)
    try {
      const own = custom?.[part]?.render(values)
      if (own !== undefined) return own
    } catch (error) {
      // From now on ours is used; the alarm comes once.
      delete custom?.[part]
      this.#onBroken(nameOf(type, part), error)
    }
    return this.#ours.get(type)?.[part]?.render(values) ?? ''
  }

  #compile(folder: string, type: NotificationType): Parts {
    const parts: Parts = {}
    for (const part of PARTS) {
      const name = nameOf(type, part)
      if (!existsSync(path.join(folder, name))) continue
      try {
        const template = new Template(read(folder, name))
        template.render(part === 'body.html' ? escaped(sampleOf(type)) : sampleOf(type))
        parts[part] = template
      } catch (error) {
        this.#onBroken(name, error)
      }
    }
    return parts
  }
}

const nameOf = (type: NotificationType, part: Part) => `${type}_${part}`
const read = (folder: string, name: string) => readFileSync(path.join(folder, name), 'utf8')

/** The layouts are ours and only name values; the interpreter would cost as much as all else. */
const filled = (layout: string, values: TemplateValues) =>
  layout.replaceAll(/\{\{ (\w+) \}\}/g, (_, name) => String(values[name] ?? ''))

/** Line breaks would begin another header. */
function oneLine(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\u2028\u2029\s]+/gu, ' ').trim()
  return line.length > MAX_SUBJECT ? `${line.slice(0, MAX_SUBJECT - 1).trimEnd()}…` : line
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escapeHtml = (text: string) => text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] as string)

function escaped(values: TemplateValues): TemplateValues {
  const each = ([name, value]: [string, TemplateValues[string]]) => [
    name,
    typeof value === 'string' ? escapeHtml(value) : typeof value === 'number' ? value : value.map(escapeHtml),
  ]
  return Object.fromEntries(Object.entries(values).map(each as never))
}

function withoutTags(html: string): string {
  const text = html
    .replaceAll(/<(style|script|title)\b[\s\S]*?<\/\1>/gi, '')
    .replaceAll(/<\/(?:p|div|tr|h\d|li)>|<br\s*\/?>/gi, '\n')
    .replaceAll(/<[^>]*>/g, '')
  const plain = text.replaceAll(/&(?:amp|lt|gt|quot|#39);/g, (entity) => {
    return Object.keys(ENTITIES).find((character) => ENTITIES[character] === entity) ?? entity
  })
  return `${plain
    .replaceAll(/[ \t]+/g, ' ')
    .replaceAll(/\n\s*\n\s*\n+/g, '\n\n')
    .trim()}\n`
}

/** Values for a look at a template: at the start, in `chancery mail preview`, and in tests. */
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
