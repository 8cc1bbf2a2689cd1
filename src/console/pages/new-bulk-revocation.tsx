/** A bulk revocation in three steps: which certificates, what that hits, and why. */

import { useState } from 'preact/hooks'
import { call, type Input, type Output } from '../api.ts'
import { fieldError, Problem } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { DayField, SelectField, TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { withWholeDays } from '../days.ts'
import { countText } from '../format.ts'
import { go, href, type PageProps, type Query } from '../router.ts'
import { WORDS } from '../words.ts'

type Filter = NonNullable<Input<'bulkRevoke'>['body']>['filter']
type DryRun = Extract<Output<'bulkRevoke'>, { dry_run: true }>
interface Wanted {
  account: string
  domain: string
  key: string
  after: string
  before: string
  serials: string
}

const words = WORDS.bulk
const KEY_COMPROMISE = '1'

const wantedBy = (query: Query): Wanted => ({
  account: query['account_id'] ?? '',
  domain: query['domain'] ?? '',
  key: query['spki_sha256'] ?? '',
  after: query['issued_after'] ?? '',
  before: query['issued_before'] ?? '',
  serials: query['serial_numbers'] ?? '',
})

/** Filters of the list that led here and that a bulk revocation lacks. */
const lacking = (query: Query): string[] =>
  Object.entries(WORDS.certificates.chip).flatMap(([name, label]) =>
    query['without']?.split(' ').includes(name) ? [label] : [],
  )

function filterOf({ account, domain, key, after, before, serials }: Wanted): Filter {
  const numbers = serials.split(/[\s,]+/).filter((serial) => serial !== '')
  return {
    ...withWholeDays({ ...(after && { issued_after: after }), ...(before && { issued_before: before }) }),
    ...(account.trim() && { account_id: account.trim() }),
    ...(domain.trim() && { domain: domain.trim() }),
    ...(key.trim() && { spki_sha256: key.trim() }),
    ...(numbers.length > 0 && { serial_numbers: numbers }),
  }
}

export function NewBulkRevocationPage({ query }: PageProps) {
  const [wanted, setWanted] = useState(() => wantedBy(query))
  const [found, setFound] = useState<DryRun>()
  const { submit, error, isBusy } = useSubmit(async () => {
    const reply = await call('bulkRevoke', { body: { filter: filterOf(wanted), dry_run: true } })
    if ('dry_run' in reply) setFound(reply)
  })
  const change = (name: keyof Wanted) => (value: string) => {
    setWanted({ ...wanted, [name]: value })
    setFound(undefined)
  }
  return (
    <Page title={words.start}>
      <form onSubmit={submit}>
        <h2>{words.step1}</h2>
        <p class="quiet">{words.step1Help}</p>
        {lacking(query).length > 0 && (
          <div class="problem" role="alert">
            <p>{words.lacking(lacking(query).join(', '))}</p>
          </div>
        )}
        <div class="filters two-ids">
          <TextField
            label={words.account}
            value={wanted.account}
            onChange={change('account')}
            error={fieldError(error, 'filter.account_id')}
          />
          <TextField
            label={words.key}
            value={wanted.key}
            onChange={change('key')}
            error={fieldError(error, 'filter.spki_sha256')}
          />
          <TextField
            label={words.domain}
            value={wanted.domain}
            onChange={change('domain')}
            error={fieldError(error, 'filter.domain')}
          />
          <DayField label={words.issuedAfter} value={wanted.after} onChange={change('after')} />
          <DayField label={words.issuedBefore} value={wanted.before} onChange={change('before')} />
        </div>
        <TextField
          label={words.serials}
          help={words.serialsHelp}
          value={wanted.serials}
          onChange={change('serials')}
          rows={4}
        />
        <Problem error={error} />
        <div class="actions left">
          <button type="submit" class="primary" disabled={isBusy}>
            {words.preview}
          </button>
        </div>
      </form>
      {found && <Found found={found} filter={filterOf(wanted)} />}
    </Page>
  )
}

function Found({ found, filter }: { found: DryRun; filter: Filter }) {
  // A key is named because it has leaked, and no other reason blocks it.
  const [reason, setReason] = useState(filter.spki_sha256 === undefined ? '0' : KEY_COMPROMISE)
  const [asks, setAsks] = useState(false)
  const { matching_certificates: count, already_revoked: already, serial_numbers } = found
  return (
    <>
      <section class="section" aria-live="polite">
        <h2>{words.step2}</h2>
        <p>{count === 0 ? words.hitsNone : words.hits(countText(count), countText(already))}</p>
        {count > 0 && (
          <details>
            <summary>{words.sample(serial_numbers.length)}</summary>
            <p class="names">
              {serial_numbers.map((serial) => (
                <a key={serial} href={href(`/certificates/${serial}`)}>
                  <code>{serial}</code>
                </a>
              ))}
            </p>
          </details>
        )}
      </section>
      {count > 0 && (
        <section class="section">
          <h2>{words.step3}</h2>
          <form class="narrow" onSubmit={(event) => event.preventDefault()}>
            <SelectField
              label={words.reason}
              value={reason}
              onChange={setReason}
              options={Object.entries(WORDS.reasons)}
              help={reason === KEY_COMPROMISE ? words.blocksKeys : words.keepsKeys}
            />
            <button type="button" class="danger" onClick={() => setAsks(true)}>
              {words.confirm} …
            </button>
          </form>
        </section>
      )}
      {asks && (
        <Confirm
          title={words.confirm}
          action={words.confirm}
          danger
          typed={String(count)}
          onClose={() => setAsks(false)}
          consequence={
            <>
              <p>{words.hits(countText(count), countText(already))}</p>
              <p>{words.consequence}</p>
            </>
          }
          onConfirm={() => revoke(filter, Number(reason), count)}
        />
      )}
    </>
  )
}

/** Its page shows the progress, and can cancel it. */
async function revoke(filter: Filter, reason: number, count: number): Promise<void> {
  const reply = await call('bulkRevoke', { body: { filter, reason, confirm_count: count, wait: false } })
  if ('job_id' in reply) go(`/bulk-revocations/${reply.job_id}`)
  else if ('id' in reply) go(`/bulk-revocations/${reply.id}`)
}
