/** Asks over the page what a grave act needs: the password once more, or the reason for another person. */

import { useEffect, useRef } from 'preact/hooks'
import { call } from '../api.ts'
import { showPasskey } from '../passkeys.ts'
import { useQuestion } from '../questions.ts'
import { useSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { Confirm } from './dialog.tsx'
import { ProviderWay } from './session.tsx'

export function QuestionDialog() {
  const question = useQuestion()
  if (!question) return null
  return question.kind === 'identity' ? <IdentityQuestion {...question} /> : <ReasonQuestion {...question} />
}

type QuestionProps = NonNullable<ReturnType<typeof useQuestion>>

const PASSWORD = {
  password: { label: 'Password', type: 'password', autoComplete: 'current-password', required: true },
} as const

function IdentityQuestion({ answer, cancel }: QuestionProps) {
  const { token } = useSession()
  const asked = useRef(token)
  // A sign-in in another tab answers the question, too.
  useEffect(() => {
    if (token !== undefined && token !== asked.current) answer('')
  }, [token])
  const { data: ways } = useApi('getConfirmOptions', {})
  // A user who has a passkey confirms with it.
  const passkey = ways?.passkey
  return (
    <Confirm
      title="Confirm it is you"
      action="Confirm"
      consequence="Your sign-in is not recent enough for this. Nothing that you typed is lost."
      fields={passkey ? {} : PASSWORD}
      onConfirm={async ({ password = '' }: { password?: string }) => {
        const body = passkey ? { credential: await showPasskey(passkey) } : { password }
        await call('confirmSignIn', { body })
        answer('')
      }}
      onClose={cancel}
    >
      {passkey && <p>Your browser asks for your passkey.</p>}
      <ProviderWay isOverPage />
    </Confirm>
  )
}

const ReasonQuestion = ({ message, answer, cancel }: QuestionProps) => (
  <Confirm
    title="Another person must approve"
    action="Ask for approval"
    consequence={
      <>
        <p>{message}.</p>
        <p>Nothing is done before that. You see the decision under Approvals.</p>
      </>
    }
    fields={REASON}
    onConfirm={async ({ reason }) => answer(reason)}
    onClose={cancel}
  />
)

const REASON = {
  reason: {
    label: 'Reason for approval',
    help: 'Who decides reads it, and so does the audit log.',
    required: true,
  },
} as const
