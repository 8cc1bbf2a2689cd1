/** The user's own profile: who is signed in, and a new password. */

import { useState } from 'preact/hooks'
import { call, type Output, useApi } from '../api.ts'
import { Facts, Ready, Time } from '../components/basics.tsx'
import { Confirm, ShownOnce } from '../components/dialog.tsx'
import { TextField } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { ROLES } from '../labels.ts'
import { forget } from '../session.ts'

export function ProfilePage() {
  const loaded = useApi('getMe', {})
  const [isAsking, setAsking] = useState(false)
  const [current, setCurrent] = useState('')
  const [made, setMade] = useState<Output<'resetMyPassword'>>()
  return (
    <Page title="Your profile">
      <Ready loaded={loaded}>
        {(me) => (
          <Facts
            rows={[
              ['Username', me.username],
              ['Mail address', me.email],
              ['Role', ROLES[me.role]],
              ['Last login', <Time key="login" at={me.last_login_at} />],
              ['Created', <Time key="created" at={me.created_at} />],
            ]}
          />
        )}
      </Ready>
      <div class="actions left">
        <button
          type="button"
          onClick={() => {
            setCurrent('')
            setAsking(true)
          }}
        >
          Generate a new password
        </button>
      </div>
      {isAsking && (
        <Confirm
          title="Generate a new password"
          consequence={
            <p>The old password and all your sessions end, this one included. You sign in with the new one.</p>
          }
          action="Generate a new password"
          danger
          onClose={() => setAsking(false)}
          onConfirm={async () => setMade(await call('resetMyPassword', { body: { current_password: current } }))}
        >
          <TextField
            label="Current password"
            type="password"
            autoComplete="current-password"
            value={current}
            onChange={setCurrent}
            required
          />
        </Confirm>
      )}
      {made && <ShownOnce title="Your new password" secrets={[['Password', made.password]]} onClose={forget} />}
    </Page>
  )
}
