import { LONGEST_TIMER_MS } from '../../lib/time/back-off.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import { datagramTo, type SendDatagram } from '../../lib/native/datagram.ts';

/** Reports the daemon's state to systemd: sd_notify(3). Without a listener, calls do nothing; none ever throws. */
export type Notifier = ReturnType<typeof createNotifier>;

/** systemd's variables for the socket and the watchdog (sd_notify(3), sd_watchdog_enabled(3)). */
const VARIABLES = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'] as const;

/** systemd drops a message of more than 4096 bytes; a UTF-16 unit takes at most three bytes. */
const MAX_STATUS_UNITS = 1000;

/**
 * Makes a notifier from the environment, and removes systemd's variables from it: programs that the daemon starts must not
 * report in its name.
 * @param env the environment; it is changed
 * @param open opens the socket at a path
 */
export function createNotifier(env: NodeJS.ProcessEnv, open: (path: string) => SendDatagram = datagramTo) {
  const { NOTIFY_SOCKET: path, WATCHDOG_USEC: usec, WATCHDOG_PID: pid } = env;
  for (const name of VARIABLES) delete env[name];
  const send = senderTo(path, open);
  return {
    /** The daemon works; also ends `reloading`. */
    ready: (): void => send('READY=1'),
    /** Sends the present activity, in one line, for `systemctl status`. */
    status: (text: TerminalText): void => send(`STATUS=${oneLine(String(text))}`),
    /** The settings are being read again, until the next `ready`. */
    reloading: (): void => send(`RELOADING=1\nMONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    /** It is about to end. */
    stopping: (): void => send('STOPPING=1'),
    /** It is alive. */
    watchdog: (): void => send('WATCHDOG=1'),
    /** systemd kills the daemon after this time without `watchdog`, in milliseconds; null if it does not watch. */
    watchdogIntervalMs: path === undefined ? null : intervalMs(usec, pid),
  };
}

/** An unreachable service manager applies its own time limits and reports it: this must not end the daemon. */
function senderTo(path: string | undefined, open: (path: string) => SendDatagram): SendDatagram {
  let send: SendDatagram | null = null;
  return (text) => {
    if (path === undefined) return;
    try {
      send ??= open(path);
      send(text);
    } catch {
      // The next message tries again.
    }
  };
}

/** The watchdog watches one process, not one that inherited the variables. */
function intervalMs(usec: string | undefined, pid: string | undefined): number | null {
  if (pid !== undefined && pid !== String(process.pid)) return null;
  const microseconds = /^[0-9]+$/.test(usec ?? '') ? Number(usec) : 0;
  if (microseconds === 0 || !Number.isSafeInteger(microseconds)) return null;
  return Math.min(microseconds / 1000, LONGEST_TIMER_MS);
}

/** A line end would begin another field of the message. */
function oneLine(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ').slice(0, MAX_STATUS_UNITS);
}
