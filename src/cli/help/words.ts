import { EVENTS } from '../../app/events.ts';
import { ERROR_RULES, type ErrorAction, type ErrorCode } from '../../lib/errors/errors.ts';
import { partsOf } from '../../lib/text/humanize.ts';
import {
  HOLD_REASONS,
  type KeepAction,
  type PullReason,
  type RetireReason,
} from '../../mirror/plan/actions.ts';

/** The daemon's reaction to an error. */
const ACTIONS: Readonly<Record<ErrorAction, string>> = {
  retry: 'The daemon tries again, later each time.',
  hold: 'The daemon waits on purpose.',
  quarantine: 'The daemon tries again when the target changes, or after an hour.',
  stall: 'The daemon tries again, at the latest after an hour; someone must act.',
  exit: 'The program ends, or refuses the command.',
};

/** The meaning of each error code, and its remedy if that is not obvious. */
const ERRORS: Readonly<Record<ErrorCode, string>> = {
  'usage.invalid': 'The command line is wrong. `COMMAND --help` explains it.',
  'settings.invalid': 'A setting is wrong or missing. `config check` names it.',
  'directory.unusable': 'The folder in `directory` cannot be used, or holds other data.',
  'directory.locked': 'Another process works in the directory. `status` names it.',
  'directory.taken': 'The lock of the directory was lost: another process may work there.',
  'directory.other_service':
    'None of the mirrored repositories is in the service: `service.baseUrl` leads elsewhere.',
  'directory.replaced':
    'Another directory is in the place of the one that the daemon opened. Check the mount.',
  'daemon.absent': 'No daemon runs in the directory, or it ended before it answered.',
  'credentials.refused':
    'The service refuses all keys of a setting. Put a new key into its file. After a new systemd credential, restart: `systemctl restart workbook-mirror`.',
  'service.unreachable': 'No connection to the service. Check address, network, proxy and certificate.',
  'service.timeout': 'The service did not answer in time (`service.timeout`).',
  'service.busy': 'The service asks for fewer requests (429, 503).',
  'service.failed': 'The service reports an error of its own (5xx).',
  'service.wrong_kind':
    'The answer is not from the API: a login page or proxy answers. Check `service.baseUrl`.',
  'service.not_found': 'The API has no such address (404). Check `service.baseUrl`: it ends with /api.',
  'service.redirected':
    'The service redirects to another address, which gets no keys. Use the address that the message names.',
  'service.answer_too_large': 'A list is larger than 256 MiB.',
  'listing.malformed': 'A list has another form than the API says. Nothing is deleted because of it.',
  'listing.inconsistent': 'A list changed while its pages were read, or contradicts itself.',
  'contents.not_found': 'The service lists the target but has no contents for it.',
  'contents.forbidden': 'The key may not read the target. Give its owner access.',
  'contents.wrong_kind': 'The contents are no archive.',
  'contents.contradicted': 'Contents and list of the service disagree about a workbook.',
  'contents.empty': 'The archive is empty, although the list has workbooks.',
  'contents.too_large': 'The contents are larger than `archive.maxSize`. Raise it.',
  'contents.interrupted': 'The download broke off.',
  'archive.damaged': 'The archive is damaged: checksums or sizes differ.',
  'archive.refused': 'The archive has something that must not be unpacked, or exceeds a limit of `archive`.',
  'disk.full': 'No space, inodes or quota is left. Nothing is lost. Free space, or keep less history.',
  'disk.failed': 'The file system refused a call; the message names the cause.',
  'disk.changed': 'Files of the mirror changed while the program worked on them.',
  'disk.unstorable': 'The file system cannot store the name or size of a file. Rename it in the service.',
  'system.exhausted': 'Too many open files or threads. Raise `LimitNOFILE=` or `ulimit -n`.',
  'publish.leased': 'A lease pauses publishing. `lease list` names it.',
  'publish.refused': '`hooks.beforePublish` refused the new state.',
  'hook.failed': 'A hook command failed. Its last line is in the message.',
  'notification.failed': 'The webhook or heartbeat did not take the request.',
  'log.failed': 'The log cannot be written: lines are dropped.',
  'lease.not_granted': 'The lease could not be taken, as a publish did not end in time.',
  'lease.not_found': 'There is no such lease. `lease list` shows them.',
  'lease.lost': 'The lease ended before the command. Repeat the backup, with a longer `--for`.',
  'key.not_found': 'The embedded service has no such key. `keys list` shows them.',
  'http.unusable': 'Nothing can listen at the address, for example because the port is taken.',
  'state.unavailable': 'The state cache cannot be used. No data is lost.',
  'target.unknown': 'No target has this name. `status` lists them.',
  'target.not_held': 'No deletion of this target is held.',
  'target.mirrored': 'The settings select the target and the service has it, so it cannot be forgotten.',
  'history.not_found': 'The history does not keep this file or state. `history list` shows what it keeps.',
  'history.occupied': 'Something is in the place of the restored tree already. Use `--to`.',
  'history.damaged': 'The kept file is damaged, and no other copy has its bytes. Restore a backup.',
  'pass.abandoned': 'A signal ended the work. Nothing is half done.',
  'program.replaced': 'The files of the program were replaced while it ran. It must be started again.',
  'internal.defect': 'A defect of workbook-mirror. Please report it with the log lines around it.',
};

/** The meaning of the reasons for pulling, keeping or retiring a target. */
const REASONS: Readonly<Record<PullReason | RetireReason | KeepAction['reason'], string>> = {
  'never-mirrored': 'The target is new.',
  'tree-missing': 'Its tree is gone from the disk.',
  drift: 'Someone changed its tree.',
  'versions-changed':
    'The list has other versions of its workbooks, or fewer. A large deletion is held once its contents show it.',
  'processing-finished': 'The service finished processing it.',
  'confirm-gone': 'Its contents are asked for again, to see whether the branch is gone.',
  'no-version-list': 'No list of workbooks shows what changed in its repository.',
  'full-check': 'Its whole contents are compared (`fullCheck`).',
  'repository-gone': 'Two complete lists lack its repository.',
  'branch-gone': 'Its branch has no contents any more.',
  'branch-known': 'HEAD is mirrored by the name of its branch now.',
  duplicate: 'Another tree of the same target is in its place.',
  moved: 'Another instance mirrors it now.',
  unchanged: 'The versions are those that are published.',
  absent: 'The service has no contents for it, so far.',
};

/** The meaning of the words that are printed most, of the actions of a plan, and of the columns of tables. */
const TABLE_WORDS = {
  target: 'A target is one branch of one repository: a folder below mirror/.',
  pass: 'A pass asks the service for its lists, and then downloads and publishes all changes.',
  fresh: 'State: the target equalled the service at most `maxStaleness` ago.',
  failing: 'State: the last attempt failed, or the tree is gone from the disk. A later pass tries again.',
  'needs you': 'State: someone must act. The line below the target in `status` says how.',
  gone: 'State: the service no longer lists the target, or the settings no longer select it.',
  pull: 'Action of a plan: the contents are downloaded, and changes are published.',
  keep: 'Action of a plan: nothing is downloaded; the reason says why.',
  hold: 'Action of a plan: nothing is done for now, for the reason shown.',
  retire: 'Action of a plan: its tree moves to the history, for the reason shown.',
  leave: 'Action of a plan: the settings do not select it; its tree stays unchanged.',
  verified: 'Column: when the target was last known to equal the service.',
  changed: 'Column: when the published tree last changed.',
  'last archive': 'Column: the size of the archive of the last pull; that of the next one is unknown.',
};

/** The meanings of an error code, an event, a reason, or a word of a table; none for another word. */
export function meaningsOf(word: string): readonly string[] {
  const rule = lookUp(ERROR_RULES, word);
  const event = lookUp(EVENTS, word);
  const reason = lookUp(REASONS, word);
  const hold = lookUp(HOLD_REASONS, word);
  return partsOf(
    rule !== null &&
      `Error code ${word}: ${lookUp(ERRORS, word)} ${ACTIONS[rule.action]} A command that fails with it exits with ${rule.exitCode}.`,
    event !== null && `Event ${word} (level ${event[0]}): ${event[1]}`,
    reason !== null && `Reason ${word}: ${reason}`,
    hold !== null && `Reason ${word}: the target ${hold.says}.`,
    lookUp(TABLE_WORDS, word.toLowerCase()),
  );
}

function lookUp<T>(table: Readonly<Record<string, T>>, word: string): T | null {
  return Object.hasOwn(table, word) ? (table[word] ?? null) : null;
}
