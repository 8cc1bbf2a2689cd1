/** A certificate in a list: the same columns wherever one is shown. */

import type { Output } from '../api.ts'
import { href } from '../router.ts'
import { Badge, Time } from './basics.tsx'
import type { CsvFile } from './csv.tsx'
import type { Column } from './table.tsx'

export type ListedCertificate = Output<'listCertificates'>[number]
type Dated = Pick<ListedCertificate, 'revoked_at' | 'not_after'>

/** Names in a row of a list; the page of the certificate has all. */
const NAMES_SHOWN = 4
/** Days before its end that somebody should look. */
const SOON_DAYS = 14
const DAY_MS = 86_400_000

export function CertificateStatus({ certificate }: { certificate: Dated }) {
  if (certificate.revoked_at !== null) return <Badge tone="bad">Revoked</Badge>
  const left = Date.parse(certificate.not_after) - Date.now()
  if (left <= 0) return <Badge>Expired</Badge>
  return <Badge tone={left < SOON_DAYS * DAY_MS ? 'warn' : 'good'}>Active</Badge>
}

function Names({ certificate: { serial_number, san_values } }: { certificate: ListedCertificate }) {
  const [first = serial_number, ...others] = san_values
  const shown = others.slice(0, NAMES_SHOWN - 1)
  return (
    <span class="names">
      <a href={href(`/certificates/${serial_number}`)}>{first}</a>
      {shown.map((name) => (
        <span key={name}>{name}</span>
      ))}
      {others.length > shown.length && <span class="quiet">+{others.length - shown.length}</span>}
    </span>
  )
}

export const CERTIFICATE_COLUMNS: readonly Column<ListedCertificate>[] = [
  { head: 'Names', kind: 'wide', cell: (row) => <Names certificate={row} /> },
  { head: 'Status', kind: 'fixed', cell: (row) => <CertificateStatus certificate={row} /> },
  { head: 'Expires', kind: 'fixed', sort: 'not_after', cell: ({ not_after }) => <Time at={not_after} /> },
  {
    head: 'Issued',
    kind: 'fixed',
    sort: 'issued_at',
    cell: ({ created_at }) => <Time at={created_at} relative={false} />,
  },
  {
    head: 'Account',
    kind: 'fixed',
    cell: ({ account_id }) => account_id && <a href={href(`/accounts/${account_id}`)}>{shortId(account_id)}</a>,
  },
  {
    head: 'Serial number',
    kind: 'fixed',
    cell: ({ serial_number }) => <code title={serial_number}>{shortSerial(serial_number)}</code>,
  },
]

/** Of a UUID of version 7 the end differs, the beginning is its time. */
export const shortId = (id: string) => `…${id.slice(-8)}`
const shortSerial = (serial: string) => (serial.length > 16 ? `${serial.slice(0, 8)}…${serial.slice(-6)}` : serial)

export const CERTIFICATES_CSV: CsvFile<ListedCertificate> = {
  name: 'certificates.csv',
  members: [
    ...(['serial_number', 'san_values', 'not_before', 'not_after', 'revoked_at', 'revocation_reason'] as const),
    ...(['account_id', 'order_id', 'fingerprint', 'issuer_fingerprint'] as const),
  ],
}
