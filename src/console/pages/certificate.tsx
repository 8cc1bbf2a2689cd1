/** One certificate as a person reads it. */

import { AdminApiError, type Output, useApi } from '../api.ts'
import { Badge, Copyable, Empty, Facts, Problem, Ready, Time } from '../components/basics.tsx'
import { CertificateStatus, shortId } from '../components/certificates.tsx'
import { Page } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'
import { CertificateActions } from './certificate-actions.tsx'
import { Evidence } from './evidence.tsx'

type Details = Output<'getCertificateDetails'>

const words = WORDS.certificate

export function CertificatePage({ params }: PageProps) {
  const serial = params['serial'] ?? ''
  const loaded = useApi('getCertificateDetails', { params: { serial } })
  const { data, error, reload } = loaded
  if (isNotFound(error)) return <WithoutDetails serial={serial} />
  return (
    <Page
      title={data?.certificate.san_values[0] ?? WORDS.pages.certificate}
      actions={data && <CertificateActions certificate={data.certificate} onChange={reload} />}
    >
      <Ready loaded={loaded}>
        {(details) => (
          <>
            <Summary details={details} />
            <Extensions details={details} />
            <Chain details={details} />
            {details.certificate.order_id !== null && <OrderOf id={details.certificate.order_id} />}
          </>
        )}
      </Ready>
    </Page>
  )
}

const isNotFound = (error: unknown) => error instanceof AdminApiError && error.status === 404

/** Unknown, or known by issuer and serial number only. */
function WithoutDetails({ serial }: { serial: string }) {
  const { data, error } = useApi('getCertificate', { params: { serial } })
  return (
    <Page title={WORDS.pages.certificate}>
      {isNotFound(error) ? (
        <Empty title={words.notFound}>
          <a href={href('/certificates')}>{WORDS.pages.certificates}</a>
        </Empty>
      ) : (
        <Problem error={error} />
      )}
      {data && (
        <>
          <p>{words.unusable}</p>
          <Facts
            rows={[
              [WORDS.certificates.serial, <Copyable key="serial" text={data.serial_number} />],
              [WORDS.certificates.status, <CertificateStatus key="status" certificate={data} />],
              [words.until, <Time key="until" at={data.not_after} />],
              [words.issuerName, data.issuer_fingerprint],
            ]}
          />
        </>
      )}
    </Page>
  )
}

function Summary({ details }: { details: Details }) {
  const { certificate, profile, subject, issuer, public_key, signature_algorithm, renewal } = details
  const { account_id, san_values, revoked_at, revocation_reason, fingerprint } = certificate
  const source = renewal.advised ? words.renewalAdvised : revoked_at ? words.renewalRevoked : words.renewalByLifetime
  return (
    <Facts
      rows={[
        [
          WORDS.certificates.status,
          <>
            <CertificateStatus certificate={certificate} />{' '}
            {revoked_at && (
              <>
                <Time at={revoked_at} /> {revocation_reason}
              </>
            )}
          </>,
        ],
        [WORDS.certificates.names, san_values.join(', ')],
        [words.from, <Time at={certificate.not_before} />],
        [words.until, <Time at={certificate.not_after} />],
        [WORDS.certificates.serial, <Copyable text={certificate.serial_number} />],
        [WORDS.certificates.fingerprint, fingerprint && <Copyable text={fingerprint} />],
        [words.subject, subject],
        [words.issuerName, issuer],
        [WORDS.certificates.profile, profile],
        [words.key, public_key.type],
        [
          words.keyHash,
          <>
            <Copyable text={public_key.spki_sha256} />{' '}
            <a href={href('/certificates', { spki_sha256: public_key.spki_sha256 })}>{words.sameKey}</a>{' '}
            {public_key.blocked && <Badge tone="bad">{words.keyBlocked}</Badge>}
          </>,
        ],
        [words.signature, signature_algorithm],
        [WORDS.certificates.account, account_id && <a href={href(`/accounts/${account_id}`)}>{account_id}</a>],
        [
          words.renewal,
          <>
            <Time at={renewal.window_start} relative={false} /> – <Time at={renewal.window_end} />{' '}
            <span class="quiet">({source})</span> {renewal.replaced && words.replaced}
          </>,
        ],
        [words.explanation, renewal.explanation_url],
        [words.crl, revoked_at ? words.crlEntry(revocation_reason ?? '') : words.crlNone],
      ]}
    />
  )
}

const EXTENSION_COLUMNS = [
  { head: words.extension, kind: 'fixed', cell: ({ name }: Details['extensions'][number]) => name },
  {
    head: words.critical,
    kind: 'fixed',
    cell: ({ critical }: Details['extensions'][number]) => (critical ? WORDS.app.yes : WORDS.app.no),
  },
  {
    head: words.values,
    kind: 'wide',
    cell: ({ values }: Details['extensions'][number]) =>
      values.map((value) => (
        <div key={value}>
          <code>{value}</code>
        </div>
      )),
  },
] as const

function Extensions({ details: { extensions } }: { details: Details }) {
  return (
    <section class="section">
      <h2>{words.extensions}</h2>
      <Table caption={words.extensions} columns={EXTENSION_COLUMNS} rows={extensions} rowKey={({ name }) => name} />
    </section>
  )
}

const CHAIN_COLUMNS = [
  { head: words.subject, kind: 'wide', cell: ({ subject }: Details['chain'][number]) => subject },
  {
    head: words.until,
    kind: 'fixed',
    cell: ({ not_after }: Details['chain'][number]) => <Time at={not_after} />,
  },
  {
    head: WORDS.certificates.fingerprint,
    cell: ({ fingerprint }: Details['chain'][number]) => <code>{fingerprint}</code>,
  },
] as const

const LOG_COLUMNS = [
  { head: words.log, kind: 'wide', cell: ({ log_url }: Details['timestamps'][number]) => log_url },
  {
    head: words.signedAt,
    kind: 'fixed',
    cell: ({ signed_at }: Details['timestamps'][number]) => <Time at={signed_at} />,
  },
  {
    head: words.verified,
    kind: 'fixed',
    cell: ({ verified }: Details['timestamps'][number]) => (verified ? WORDS.app.yes : WORDS.app.no),
  },
] as const

function Chain({ details: { chain, timestamps } }: { details: Details }) {
  return (
    <>
      <section class="section">
        <h2>{words.chain}</h2>
        <Table
          caption={words.chainHelp}
          columns={CHAIN_COLUMNS}
          rows={chain}
          rowKey={({ fingerprint }) => fingerprint}
        />
      </section>
      {timestamps.length > 0 && (
        <section class="section">
          <h2>{words.timestamps}</h2>
          <Table caption={words.timestamps} columns={LOG_COLUMNS} rows={timestamps} rowKey={({ log_url }) => log_url} />
        </section>
      )}
    </>
  )
}

/** Orders are pruned before certificates; then nothing is known of the validation. */
function OrderOf({ id }: { id: string }) {
  const loaded = useApi('getOrder', { params: { order_id: id } })
  if (isNotFound(loaded.error)) return <p class="quiet">{words.evidenceNone}</p>
  return (
    <section class="section">
      <h2>{words.evidence}</h2>
      <p class="quiet">
        {words.order} <a href={href(`/orders/${id}`)}>{shortId(id)}</a>
      </p>
      <Ready loaded={loaded}>
        {({ authorizations }) =>
          authorizations.map((authorization) => <Validation key={authorization.id} authorization={authorization} />)
        }
      </Ready>
    </section>
  )
}

type Authorization = Output<'getOrder'>['authorizations'][number]

function Validation({
  authorization: { id, wildcard, identifier, status, evidence },
}: {
  authorization: Authorization
}) {
  return (
    <div class="section">
      <h3>
        <a href={href(`/authorizations/${id}`)}>{words.authorization(`${wildcard ? '*.' : ''}${identifier.value}`)}</a>{' '}
        <Badge tone={status === 'valid' ? 'good' : 'plain'}>{status}</Badge>
      </h3>
      {evidence ? <Evidence record={evidence} /> : <p class="quiet">{words.noneRecorded}</p>}
    </div>
  )
}
