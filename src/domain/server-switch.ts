/** Switches that an operator sets while the service runs, for all instances on a database. */

/** Switch → its key in the table server_settings. */
export const SERVER_SWITCHES = {
  /** No new orders. */
  maintenance: 'maintenance_mode',
  /** Nothing is signed: no certificate, no CRL. */
  stopSigning: 'signing_stopped',
} as const

export type ServerSwitch = keyof typeof SERVER_SWITCHES
