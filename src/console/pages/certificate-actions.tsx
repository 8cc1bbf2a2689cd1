/** What can be done with one certificate: save it, ask its client to renew it, revoke it. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { Allowed } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { SelectField } from '../components/form.tsx'
import { tell } from '../components/toast.tsx'
import { saveFile } from '../format.ts'
import { derOf } from '../pem.ts'
import { WORDS } from '../words.ts'

type Certificate = Output<'getCertificate'>

const words = WORDS.certificate
const KEY_COMPROMISE = '1'

export function CertificateActions({ certificate, onChange }: { certificate: Certificate; onChange: () => void }) {
  const [asks, setAsks] = useState<'revoke' | 'renew'>()
  const serial = certificate.serial_number
  const isAlive = certificate.revoked_at === null && Date.parse(certificate.not_after) > Date.now()
  const close = () => setAsks(undefined)
  const save = (name: string, content: Promise<string | Uint8Array<ArrayBuffer>>) =>
    content.then(
      (bytes) => saveFile(name, 'application/octet-stream', bytes),
      (error: Error) => tell(error.message, 'bad'),
    )
  const pem = () => call('getCertificatePem', { params: { serial } })
  const chain = () => call('getCertificateChain', { params: { serial } })
  return (
    <div class="actions">
      <button type="button" onClick={() => save(words.fileName(serial), pem())}>
        {words.downloadPem}
      </button>
      <button type="button" onClick={() => save(words.derName(serial), pem().then(derOf))}>
        {words.downloadDer}
      </button>
      <button type="button" onClick={() => save(words.chainName(serial), chain())}>
        {words.downloadChain}
      </button>
      {isAlive && (
        <Allowed to="adviseRenewal">
          <button type="button" onClick={() => setAsks('renew')}>
            {words.renew}
          </button>
        </Allowed>
      )}
      {certificate.revoked_at === null && (
        <Allowed to="revokeCertificate">
          <button type="button" class="danger" onClick={() => setAsks('revoke')}>
            {WORDS.certificates.revoke} …
          </button>
        </Allowed>
      )}
      {asks === 'revoke' && <Revoke certificate={certificate} onDone={onChange} onClose={close} />}
      {asks === 'renew' && (
        <Confirm
          title={words.renewTitle}
          action={words.renew}
          onClose={close}
          consequence={<p>{words.renewConsequence}</p>}
          onConfirm={async () => {
            await call('adviseRenewal', { body: { filter: { serial_numbers: [serial] } } })
            tell(words.renewed)
            onChange()
          }}
        />
      )}
    </div>
  )
}

interface RevokeProps {
  certificate: Certificate
  onDone: () => void
  onClose: () => void
}

function Revoke({ certificate, onDone, onClose }: RevokeProps) {
  const [reason, setReason] = useState('0')
  const { serial_number: serial, san_values } = certificate
  return (
    <Confirm
      title={words.revokeTitle}
      action={WORDS.certificates.revoke}
      danger
      onClose={onClose}
      consequence={
        <>
          <p>{words.revokeConsequence(san_values.join(', '))}</p>
          <p class="quiet">
            <code>{serial}</code>
          </p>
        </>
      }
      onConfirm={async () => {
        await call('revokeCertificate', { params: { serial }, body: { reason: Number(reason) } })
        tell(words.revoked(serial))
        onDone()
      }}
    >
      <SelectField
        label={words.reason}
        value={reason}
        onChange={setReason}
        options={Object.entries(WORDS.reasons)}
        help={reason === KEY_COMPROMISE ? words.blocksKey : words.keepsKey}
      />
    </Confirm>
  )
}
