/** Asks the owners of chosen certificates at risk to renew: the mails first, then who gets them. */

import { call, type Output } from '../api.ts'
import { LongText, Ready } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { counted } from '../format.ts'
import { useApi } from '../use-api.ts'

interface TellOwnersProps {
  serial_numbers: string[]
  /** The number of the certificates, as text. */
  count: string
  done: () => void
}

export const TellOwners = ({ serial_numbers, count, done }: TellOwnersProps) => (
  <Action
    needs="notifyAtRisk"
    kind="small"
    text="Tell the owner …"
    action="Send"
    title={`Tell the owners of ${count}`}
    onConfirm={() => call('notifyAtRisk', { body: { serial_numbers } })}
    done={({ mails, without_contact }) => `${counted(mails, 'mail')} queued.${withoutContact(without_contact)}`}
    onDone={done}
  >
    <Preview serial_numbers={serial_numbers} />
  </Action>
)

const withoutContact = (count: number) =>
  count === 0 ? '' : ` ${counted(count, 'account')} without a contact cannot be written to.`

function Preview({ serial_numbers }: Pick<TellOwnersProps, 'serial_numbers'>) {
  const loaded = useApi('notifyAtRisk', { body: { serial_numbers, dry_run: true } })
  return (
    <div aria-live="polite">
      <Ready loaded={loaded}>{(preview) => <Mails preview={preview} />}</Ready>
    </div>
  )
}

const Mails = ({ preview }: { preview: Output<'notifyAtRisk'> }) => (
  <>
    <p>
      {counted(preview.mails, 'mail')} about {counted(preview.certificates, 'certificate')}.
      {withoutContact(preview.without_contact)}
      {!preview.enabled && ' Mail is off (smtp.enabled, notifications.enabled): nobody can be told.'}
    </p>
    {preview.owners.map(({ account_id, account_name, recipients, passed_over, subject, text }) => (
      <details key={account_id} open={preview.owners.length === 1}>
        <summary>
          {account_name ?? account_id}: {[...recipients, ...passed_over].join(', ') || 'no contact'}
        </summary>
        {passed_over.length > 0 && (
          <p>No more today, after three of these mails in 24 hours: {passed_over.join(', ')}.</p>
        )}
        {recipients.length > 0 && (
          <>
            <p>
              <strong>{subject}</strong>
            </p>
            <LongText>{text}</LongText>
          </>
        )}
      </details>
    ))}
  </>
)
