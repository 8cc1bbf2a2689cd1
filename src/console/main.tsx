/** Starts the console. */

import { render } from 'preact'
import { call } from './api.ts'
import { App } from './app.tsx'
import { currentSession, noteUser, watchSession } from './session.ts'
import { watchTheme } from './theme.ts'

watchTheme()
watchSession(() => {
  // The browser forgets the session in any case. Without an answer the service ends it by its age.
  call('logout', {}).catch(() => undefined)
})
// The role may have changed since the tab was last loaded. The page's own calls show an error.
if (currentSession().token !== undefined) call('getMe', {}).then(noteUser, () => undefined)
const place = document.getElementById('console')
if (place) render(<App />, place)
