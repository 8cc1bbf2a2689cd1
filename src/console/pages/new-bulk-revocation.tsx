/** A bulk revocation in three steps: which certificates, what that hits, and why. */

import { useState } from 'preact/hooks'
import { call, type Input, type Output } from '../api.ts'
import { fieldError, Problem } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { DayField, SelectField, TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { countText, plural, withWholeDays } from '../format.ts'
import { CERTIFICATE_FILTERS, KEY_COMPROMISE, REVOCATION_REASONS } from '../labels.ts'
import { go, href, type PageProps, type Query } from '../router.ts'

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
  Object.entries(CERTIFICATE_FILTERS).flatMap(([name, label]) =>
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
    <Page title="New bulk revocation">
      <form onSubmit={submit}>
        <h2>1. Select certificates</h2>
        <p class="quiet">A certificate has to match all filters. Expired certificates are left out.</p>
        {lacking(query).length > 0 && (
          <div class="problem" role="alert">
            <p>
              A bulk revocation cannot filter by: {lacking(query).join(', ')}. It may match more than the list that you
              came from.
            </p>
          </div>
        )}
        <div class="filters two-ids">
          <TextField
            label="Account id"
            value={wanted.account}
            onChange={change('account')}
            error={fieldError(error, 'filter.account_id')}
          />
          <TextField
            label="SHA-256 of the public key"
            value={wanted.key}
            onChange={change('key')}
            error={fieldError(error, 'filter.spki_sha256')}
          />
          <TextField
            label="Exact name"
            value={wanted.domain}
            onChange={change('domain')}
            error={fieldError(error, 'filter.domain')}
          />
          <DayField label="Issued from" value={wanted.after} onChange={change('after')} />
          <DayField label="Issued until" value={wanted.before} onChange={change('before')} />
        </div>
        <TextField
          label="Serial numbers"
          help="In hexadecimal, one a line; colons do no harm. At most 10,000."
          value={wanted.serials}
          onChange={change('serials')}
          rows={4}
        />
        <Problem error={error} />
        <div class="actions left">
          <button type="submit" class="primary" disabled={isBusy}>
            Preview
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
        <h2>2. Preview</h2>
        <p>
          {count === 0
            ? 'No matches that are neither revoked nor expired.'
            : `${plural(countText(count), 'certificate')} would be revoked; ${plural(countText(already), 'more is', 'more are')} already revoked.`}
        </p>
        {count > 0 && (
          <details>
            <summary>The first {serial_numbers.length} of them</summary>
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
          <h2>3. Reason</h2>
          <form class="narrow" onSubmit={(event) => event.preventDefault()}>
            <SelectField
              label="Reason"
              value={reason}
              onChange={setReason}
              options={Object.entries(REVOCATION_REASONS)}
              help={
                reason === KEY_COMPROMISE
                  ? 'Their keys are blocked for good: the clients need new ones for their next certificates.'
                  : 'Their keys are not blocked: only keyCompromise does that.'
              }
            />
            <button type="button" class="danger" onClick={() => setAsks(true)}>
              Revoke them …
            </button>
          </form>
        </section>
      )}
      {asks && (
        <Confirm
          title="Revoke them"
          action="Revoke them"
          danger
          typed={String(count)}
          onClose={() => setAsks(false)}
          consequence={
            <>
              <p>
                {plural(countText(count), 'certificate')} would be revoked;{' '}
                {plural(countText(already), 'more is', 'more are')} already revoked.
              </p>
              <p>
                Clients that check the CRL refuse all of them once the next CRL is out. This cannot be undone. The
                accounts stay: their clients can order again.
              </p>
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
