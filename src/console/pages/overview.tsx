/** What an operator looks at in the morning. */

import { Page } from '../components/page.tsx'
import { WORDS } from '../words.ts'

export const OverviewPage = () => <Page title={WORDS.pages.overview}>{null}</Page>
