/** Asks over the page what a grave act needs: the password once more, or the reason for another person. */

import { useEffect, useRef } from 'preact/hooks'
import { call } from '../api.ts'
import { showPasskey } from '../passkeys.ts'
import { useQuestion } from '../questions.ts'
import { useSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { Confirm } from './dialog.tsx'
import { TextField, useForm } from './form.tsx'
import { ProviderWay } from './sign-in-ways.tsx'

export function QuestionDialog() {
  const question = useQuestion()
  if (!question) return null
  return question.kind === 'identity' ? <IdentityQuestion {...question} /> : <ReasonQuestion {...question} />
}

type QuestionProps = NonNullable<ReturnType<typeof useQuestion>>

function IdentityQuestion({ answer, cancel }: QuestionProps) {
  const { values, field } = useForm({ password: '' })
  const { token } = useSession()
  const asked = useRef(token)
  // A sign-in in another tab answers the question, too.
  useEffect(() => {
    if (token !== undefined && token !== asked.current) answer('')
  }, [token])
  const { data: ways } = useApi('getConfirmOptions', {})
  // Whoever has a passkey confirms with it.
  const passkey = ways?.passkey
  return (
    <Confirm
      title="Confirm it is you"
      action="Confirm"
      consequence={<p>Your sign-in is not recent enough for this. Nothing that you typed is lost.</p>}
      onConfirm={async () => {
        const body = passkey ? { credential: await showPasskey(passkey) } : values
        await call('confirmSignIn', { body })
        answer('')
      }}
      onClose={cancel}
    >
      {(error) => (
        <>
          {passkey ? (
            <p>Your browser asks for your passkey.</p>
          ) : (
            <TextField
              label="Password"
              type="password"
              autoComplete="current-password"
              required
              {...field('password', error)}
            />
          )}
          <ProviderWay isOverPage />
        </>
      )}
    </Confirm>
  )
}

function ReasonQuestion({ message, answer, cancel }: QuestionProps) {
  const { values, field } = useForm({ reason: '' })
  return (
    <Confirm
      title="Another person must approve"
      action="Ask for approval"
      consequence={
        <>
          <p>{message}.</p>
          <p>Nothing is done before that. You see the decision under Approvals.</p>
        </>
      }
      onConfirm={async () => answer(values.reason)}
      onClose={cancel}
    >
      <TextField
        label="Reason for approval"
        help="Who decides reads it, and so does the audit log."
        required
        {...field('reason', undefined)}
      />
    </Confirm>
  )
}
