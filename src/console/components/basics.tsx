/** Small parts: time, badge, copy button, facts, problem, what is empty, and who may see a button. */

import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { AdminApiError, can, LostReply, type OperationId } from '../api.ts'
import { countText, instantIn, plural, relativeText, ZONES } from '../format.ts'
import { instantText, useZone, zoneName } from '../preferences.ts'
import { href } from '../router.ts'
import { type Loaded, POLL_MS } from '../use-api.ts'
import { tell } from './page.tsx'

/** A time in the zone that the user has chosen, with the distance from now. */
export function Time({ at, relative = true }: { at: string | number | Date | null | undefined; relative?: boolean }) {
  useZone()
  if (at === null || at === undefined) return <span class="quiet">–</span>
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return <>{String(at)}</>
  return (
    <time
      dateTime={date.toISOString()}
      title={ZONES.map((zone) => `${instantIn(zone, date, true)} ${zoneName(zone)}`).join(', ')}
    >
      {instantText(date)}
      {relative && <span class="quiet"> {relativeText(date)}</span>}
    </time>
  )
}

export type Tone = 'good' | 'bad' | 'warn' | 'plain'

/** A state in one word; its colour says nothing that the word does not. */
export const Badge = ({ tone = 'plain', children }: { tone?: Tone | undefined; children: ComponentChildren }) => (
  <span class={`badge ${tone}`}>{children}</span>
)

export interface ButtonProps {
  text: string
  kind?: 'primary' | 'danger' | 'small' | undefined
  /** The operation without which the button is not shown. */
  needs?: OperationId | undefined
  disabled?: boolean | undefined
  /** Says to a screen reader what the button of a row concerns. */
  label?: string | undefined
  onClick: (event: MouseEvent) => unknown
}

export const Button = ({ text, kind, needs, disabled, label, onClick }: ButtonProps) =>
  needs !== undefined && !can(needs) ? null : (
    <button type="button" class={kind} disabled={disabled} aria-label={label} onClick={onClick}>
      {text}
    </button>
  )

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => tell('Copied'),
      () => tell('The browser refuses to copy; select the text instead.', 'bad'),
    )
  return <Button kind="small" text={label} onClick={copy} />
}

/** Text for machines, such as a fingerprint or a command, that is copied as it is. */
export const Copyable = ({ text, block = false }: { text: string; block?: boolean }) =>
  block ? (
    <div class="copyable">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard */}
      <pre tabIndex={0}>{text}</pre>
      <CopyButton text={text} />
    </div>
  ) : (
    <span class="copyable">
      <code>{text}</code> <CopyButton text={text} />
    </span>
  )

/** Shows a long text, such as a mail, in a box that scrolls. */
export const LongText = ({ children }: { children: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard
  <pre class="body" tabIndex={0}>
    {children}
  </pre>
)

/** Names and values; a name without a value is left out. */
export const Facts = ({ rows }: { rows: readonly (readonly [name: string, value: ComponentChildren] | false)[] }) => (
  <dl class="facts">
    {rows
      .filter((row) => row !== false)
      .filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
)

/** A link when the user's role may call the operation of its page, else its text. */
export const LinkTo = ({
  needs,
  to,
  children,
  ...rest
}: {
  needs: OperationId
  to: string
  class?: string | undefined
  children: ComponentChildren
}) =>
  can(needs) ? (
    <a {...rest} href={to}>
      {children}
    </a>
  ) : (
    <span {...rest}>{children}</span>
  )

/** A narrow column may break a long name anywhere: clients choose their contacts. */
const isShort = (name: string | null | undefined) => name === null || name === undefined || name.length <= 20

/** @param name that the service gives with the id; without one, the end of the id, whose beginning is the time */
export const AccountLink = ({ id, name }: { id: string; name: string | null | undefined }) => (
  <a href={href(`/accounts/${id}`)} title={id} class={isShort(name) ? 'word' : undefined}>
    {name ?? <span class="mono">{id.slice(-12)}</span>}
  </a>
)

/** Shows tags, and a dash where there are none. */
export const Tags = ({ tags }: { tags: readonly string[] }) =>
  tags.length === 0 ? (
    <span class="quiet">–</span>
  ) : (
    <span class="names">
      {tags.map((tag) => (
        <Badge key={tag}>{tag}</Badge>
      ))}
    </span>
  )

/** A link that looks like a button, for roles that may call the operation of its page. */
export const ButtonLink = ({ needs, to, text }: { needs: OperationId; to: string; text: string }) =>
  can(needs) ? (
    <a class="button" href={to}>
      {text}
    </a>
  ) : null

/** Its children are shown only to roles that may call the operation. */
export const Allowed = ({ to, children }: { to: OperationId; children: ComponentChildren }) => (
  <>{can(to) && children}</>
)

const ADVICE: Readonly<Record<number, string>> = {
  403: 'Your role does not allow this. Ask an administrator.',
  409: 'Another user may have changed it: reload the page and check.',
  500: 'The log of the service has the details under this request number.',
  503: 'This is usually temporary; try again in a moment.',
}

interface ProblemProps {
  error: unknown
  /** The page may know better than the error. */
  sentence?: string
  retry?: () => void
}

/** A refusal of the form itself, before it asks the service. */
export class FormError extends Error {
  readonly field: string

  constructor(field: string, message: string) {
    super(message)
    this.field = field
  }
}

/** An error in the service's sentence, and the advice that helps. */
export function Problem({ error, sentence, retry }: ProblemProps) {
  if (error === undefined || error === null) return null
  return (
    <div class="problem" role="alert">
      <p>{sentence ?? sentenceOf(error)}</p>
      {error instanceof AdminApiError && error.body.request_id && <p class="quiet">Request {error.body.request_id}</p>}
      {retry && <Button text="Try again" onClick={retry} />}
    </div>
  )
}

export function sentenceOf(error: unknown): string {
  if (error instanceof FormError) return error.message
  if (error instanceof AdminApiError) {
    const { message } = error
    const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`
    const wait = error.retryAfterSeconds
    const advice = wait === undefined ? ADVICE[error.status] : `Try again in ${plural(countText(wait), 'second')}.`
    return [sentence, advice].filter(Boolean).join(' ')
  }
  if (error instanceof LostReply)
    return 'The service does not answer, or the connection was lost. It may have done what you asked: check before you try again.'
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return 'The service took more than a minute. It may have done what you asked: check before you try again.'
  if (error instanceof TypeError && /fetch|network|load/i.test(error.message))
    return 'The service does not answer. Check the connection.'
  return 'This page has failed. Reload it; if it fails again, report what the browser console says.'
}

/** The service's error of one field of a form. @param field as in the body, with dots */
export function fieldError(error: unknown, field: string): string | undefined {
  if (error instanceof FormError) return error.field === field ? error.message : undefined
  if (!(error instanceof AdminApiError)) return undefined
  return error.body.fields?.find((one) => one.field === field)?.message
}

/** It stands in the place of an empty list, and says how to begin. */
export const Empty = ({ title, about, children }: { title: string; about?: string; children?: ComponentChildren }) => (
  <div class="empty">
    <p>
      <strong>{title}</strong>
    </p>
    {about !== undefined && <p>{about}</p>}
    {children}
  </div>
)

/** The place of what is still loading: as high as it will be, so that nothing jumps. @param rows lines of text */
export const Skeleton = ({ rows = 4 }: { rows?: number }) => (
  <div class="skeleton" role="status">
    <span class="hidden">Loading …</span>
    {Array.from({ length: rows }, (_, index) => (
      <span key={index} class="line" aria-hidden="true" />
    ))}
  </div>
)

/** The data of a page, or why it is not there. */
export function Ready<T>({ loaded, children }: { loaded: Loaded<T>; children: (data: T) => ComponentChildren }) {
  const { data, error, isLoading, reload } = loaded
  return (
    <>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {data !== undefined ? children(data) : isLoading && <Skeleton />}
    </>
  )
}

/** A reply may take a second or two; after this many rounds without one it is late. */
const LATE_ROUNDS = 3

/** Says whether the page is up to date. A request that hangs has no error for a minute, so the age of the last answer counts. */
export function Freshness({ loaded }: { loaded: Loaded<unknown> }) {
  const { error, isLoading, loadedAt, every = POLL_MS } = loaded
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every)
    return () => clearInterval(timer)
  }, [every])
  const isLate = isLoading && loadedAt !== undefined && now - loadedAt > LATE_ROUNDS * every
  if (error === undefined && loadedAt === undefined) return <span class="quiet">No answer yet.</span>
  if (error === undefined && !isLate) return <span class="quiet">Live, every {every / 1000} s</span>
  return (
    <span class="badge warn" role="status">
      {loadedAt === undefined ? 'No answer yet.' : `Stale: the last answer is from ${instantText(loadedAt, true)}.`}
    </span>
  )
}
