/** The package pg, and before it what makes it quick to load. */

import './navigator.ts'

export { default } from 'pg'
