/** The name of this installation, as the service has written it into the page (`admin_api.environment`). */

export const ENVIRONMENT = document.documentElement.dataset['environment']

/** The title of the tab. */
export const titleOf = (page: string): string =>
  [page, ENVIRONMENT, 'Chancery'].filter((part) => part !== undefined).join(' · ')

export const EnvironmentName = () => (ENVIRONMENT === undefined ? null : <span class="environment">{ENVIRONMENT}</span>)
