/** A bulk revocation in three steps: which certificates, what that hits, and why. */

import { useState } from 'preact/hooks'
import { CERTIFICATE_FILTERS, REVOCATION_FILTERS } from '../../admin/resources/certificates.ts'
import { call, type Input, type Output } from '../api.ts'
import { Problem } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { FilterField } from '../components/filter-field.tsx'
import { SelectField, TextField, useForm, useSubmit } from '../components/form.tsx'
import { Page, Section } from '../components/page.tsx'
import { countText, plural } from '../format.ts'
import { KEY_COMPROMISE, REVOCATION_REASONS } from '../labels.ts'
import { go, href, type PageProps, type Query } from '../router.ts'
import { withWholeDays } from '../time-zone.ts'

type Filter = NonNullable<Input<'bulkRevoke'>['body']>['filter']
type DryRun = Extract<Output<'bulkRevoke'>, { dry_run: true }>

type Wanted = Readonly<Record<keyof typeof REVOCATION_FILTERS, string>>
const MEMBERS = Object.keys(REVOCATION_FILTERS) as (keyof Wanted)[]

const wantedBy = (query: Query) => Object.fromEntries(MEMBERS.map((name) => [name, query[name] ?? ''])) as Wanted

/** Filters of the list that led here and that a bulk revocation does not have. */
const missing = (query: Query): string[] =>
  Object.entries(CERTIFICATE_FILTERS).flatMap(([name, { label }]) =>
    query['without']?.split(' ').includes(name) ? [label] : [],
  )

function filterOf(wanted: Wanted): Filter {
  const given = MEMBERS.map((name) => [name, wanted[name].trim()]).filter(([, text]) => text !== '')
  const { serial_numbers: serials, ...others }: Partial<Wanted> = withWholeDays(Object.fromEntries(given))
  const numbers = serials?.split(/[\s,]+/).filter((serial) => serial !== '')
  return { ...others, ...(numbers && { serial_numbers: numbers }) }
}

export function NewBulkRevocationPage({ query }: PageProps) {
  const { values: wanted, field } = useForm(wantedBy(query), () => setFound(undefined))
  const [found, setFound] = useState<DryRun>()
  const { submit, error, isBusy } = useSubmit(async () => {
    const reply = await call('bulkRevoke', { body: { filter: filterOf(wanted), dry_run: true } })
    if ('dry_run' in reply) setFound(reply)
  })
  return (
    <Page title="New bulk revocation">
      <form onSubmit={submit}>
        <h2>1. Select certificates</h2>
        <p class="quiet">A certificate has to match all filters. Expired certificates are left out.</p>
        {missing(query).length > 0 && (
          <div class="problem" role="alert">
            <p>
              A bulk revocation cannot filter by: {missing(query).join(', ')}. It may match more than the list that you
              came from.
            </p>
          </div>
        )}
        <div class="filters two-ids">
          {MEMBERS.filter((name) => name !== 'serial_numbers').map((name) => (
            <FilterField key={name} filter={REVOCATION_FILTERS[name]} {...field(name, error, `filter.${name}`)} />
          ))}
        </div>
        <TextField
          label={REVOCATION_FILTERS.serial_numbers.label}
          help="In hexadecimal, one a line; colons do no harm. At most 10,000."
          rows={4}
          {...field('serial_numbers', error, 'filter.serial_numbers')}
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
  const { matching_certificates: count, already_revoked: already, serial_numbers } = found
  const hits = `${plural(countText(count), 'certificate')} would be revoked; ${plural(countText(already), 'more is', 'more are')} already revoked.`
  return (
    <>
      <section class="section" aria-live="polite">
        <h2>2. Preview</h2>
        <p>{count === 0 ? 'No matches that are neither revoked nor expired.' : hits}</p>
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
        <Section title="3. Reason">
          <div class="narrow">
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
            <Action
              kind="danger"
              text="Revoke them …"
              action="Revoke them"
              typed={String(count)}
              consequence={
                <>
                  <p>{hits}</p>
                  <p>
                    Clients that check the CRL refuse all of them once the next CRL is out. This cannot be undone. The
                    accounts stay: their clients can order again.
                  </p>
                </>
              }
              onConfirm={() => revoke(filter, Number(reason), count)}
            />
          </div>
        </Section>
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
