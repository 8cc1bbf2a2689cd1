/** What ends a command with sentences for the operator instead of a stack. */
export class CommandError extends Error {}

/** The command line itself is wrong, whatever the database holds: an exit code of its own. */
export class UsageError extends CommandError {}
