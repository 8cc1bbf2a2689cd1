/** When failed logins lock an address or a username. */

import { countedAddress } from './rate-limit.ts'

/** Five failures in 300 s lock for 900 s. */
export const LOGIN_LIMIT = { failures: 5, windowSeconds: 300, lockSeconds: 900 }

/** An address from which a user has signed in within this time is not locked with the username. */
export const KNOWN_ADDRESS_HOURS = 24

/** IPv6 by its /64: a stranger has as many addresses of one network as there are guesses. */
export const addressSubject = (address: string) => `address ${countedAddress(address)}`
export const usernameSubject = (username: string) => `username ${username.toLowerCase()}`
