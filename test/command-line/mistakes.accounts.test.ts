import { describe } from 'vitest'
import { type Answer, answersMistakes } from '../support/mistakes.ts'

const scopes = 'plants:read, plants:write, chat, characters:write, keys, admin'
const limits =
  'requests_per_minute, tokens_per_minute, chat_at_once, tokens_per_day, tokens_per_month, plants, photo_bytes, characters, character_bytes, keys, changes_per_day, events'
const zones = 'a name of the IANA database, such as Europe/Berlin; UTC or "" for UTC'
const quotes = 'A value with spaces needs quotes.'

const answers: readonly Answer[] = [
  ['key list', 2, "Unknown command 'key'. Did you mean keys? See: conservatory --help"],
  ['acounts list', 2, "Unknown command 'acounts'. Did you mean accounts? See: conservatory --help"],
  ['water', 2, "Unknown command 'water'. See: conservatory --help"],
  ['srve', 2, "Unknown command 'srve'. Did you mean serve? See: conservatory --help"],
  ['serve now', 2, `Too many arguments for 'serve': it takes none, not 1. ${quotes} See: conservatory serve --help`],
  ['serve --port 80', 2, "Unknown option '--port'. See: conservatory serve --help"],
  ['--nonsense', 2, "Unknown option '--nonsense'. See: conservatory --help"],
  ['--verison', 2, "Unknown option '--verison'. Did you mean --version? See: conservatory --help"],
  ['accounts lst', 2, "Unknown command 'lst'. Did you mean list? See: conservatory accounts --help"],
  ['accounts water', 2, "Unknown command 'water'. See: conservatory accounts --help"],
  ['accounts create', 2, "Missing required argument 'name'. See: conservatory accounts create --help"],
  [
    'accounts create Ann Smith',
    2,
    `Too many arguments for 'create': it takes 1, not 2. ${quotes} See: conservatory accounts create --help`,
  ],
  [
    'accounts create a --limt plants=1',
    2,
    "Unknown option '--limt'. Did you mean --limit? See: conservatory accounts create --help",
  ],
  [
    'accounts create a --limit',
    2,
    "Option '--limit <name=value>' argument missing. See: conservatory accounts create --help",
  ],
  [
    'accounts create a --limit plnts=1',
    2,
    `Option '--limit <name=value>' argument 'plnts=1' is invalid. There is no limit "plnts"; there are ${limits}. See: conservatory accounts create --help`,
  ],
  [
    'accounts create a --limit plants=many',
    2,
    "Option '--limit <name=value>' argument 'plants=many' is invalid. The limit plants is \"many\"; give a whole number from 0 to 1000000000000, or none, or default. See: conservatory accounts create --help",
  ],
  [
    'accounts create a --limit plants=1 --limit plants=2',
    2,
    "Option '--limit <name=value>' argument 'plants=2' is invalid. The limit plants is given twice. Give it once. See: conservatory accounts create --help",
  ],
  [
    'accounts list all',
    2,
    `Too many arguments for 'list': it takes none, not 1. ${quotes} See: conservatory accounts list --help`,
  ],
  ['accounts list --jsno', 2, "Unknown option '--jsno'. Did you mean --json? See: conservatory accounts list --help"],
  ['accounts set a', 2, `The option --time-zone <zone> is missing: ${zones}. See: conservatory accounts set --help`],
  ...['Europe/Berln', '+01:00', 'CET+1', '🌿'].map(
    (zone): Answer => [
      `accounts set a --time-zone ${zone}`,
      2,
      `Option '--time-zone <zone>' argument '${zone}' is invalid. There is no time zone "${zone}"; give ${zones}. See: conservatory accounts set --help`,
    ],
  ),
  ['accounts suspned a', 2, "Unknown command 'suspned'. Did you mean suspend? See: conservatory accounts --help"],
  ['accounts suspend', 2, "Missing required argument 'name'. See: conservatory accounts suspend --help"],
  [
    'accounts suspend a b',
    2,
    `Too many arguments for 'suspend': it takes 1, not 2. ${quotes} See: conservatory accounts suspend --help`,
  ],
  ['accounts suspend a --now', 2, "Unknown option '--now'. See: conservatory accounts suspend --help"],
  ['accounts resme a', 2, "Unknown command 'resme'. Did you mean resume? See: conservatory accounts --help"],
  ['accounts resume', 2, "Missing required argument 'name'. See: conservatory accounts resume --help"],
  [
    'accounts resume a b',
    2,
    `Too many arguments for 'resume': it takes 1, not 2. ${quotes} See: conservatory accounts resume --help`,
  ],
  ['accounts resume a --now', 2, "Unknown option '--now'. See: conservatory accounts resume --help"],
  ['accounts limits a', 2, "Unknown command 'limits'. Did you mean limit? See: conservatory accounts --help"],
  [
    'accounts limit',
    2,
    `The option --limit <name=value> is missing: one of ${limits}; repeat the option for each limit; none means no limit, default means the limit of LIMITS. See: conservatory accounts limit --help`,
  ],
  [
    'accounts limit a',
    2,
    `The option --limit <name=value> is missing: one of ${limits}; repeat the option for each limit; none means no limit, default means the limit of LIMITS. See: conservatory accounts limit --help`,
  ],
  [
    'accounts limit a --limit plants',
    2,
    "Option '--limit <name=value>' argument 'plants' is invalid. The limit plants is \"\"; give a whole number from 0 to 1000000000000, or none, or default. See: conservatory accounts limit --help",
  ],
  [
    'accounts limit a b --limit plants=1',
    2,
    `Too many arguments for 'limit': it takes 1, not 2. ${quotes} See: conservatory accounts limit --help`,
  ],
  ['accounts exprt a', 2, "Unknown command 'exprt'. Did you mean export? See: conservatory accounts --help"],
  ['accounts export', 2, "Missing required argument 'name'. See: conservatory accounts export --help"],
  [
    'accounts export a b',
    2,
    `Too many arguments for 'export': it takes 1, not 2. ${quotes} See: conservatory accounts export --help`,
  ],
  ['accounts export a --jsonl', 2, "Unknown option '--jsonl'. See: conservatory accounts export --help"],
  ['accounts import', 2, "Missing required argument 'name'. See: conservatory accounts import --help"],
  ['accounts imprt a', 2, "Unknown command 'imprt'. Did you mean import? See: conservatory accounts --help"],
  [
    'accounts import a b c',
    2,
    `Too many arguments for 'import': it takes 2, not 3. ${quotes} See: conservatory accounts import --help`,
  ],
  [
    'accounts import a b --und',
    2,
    "Unknown option '--und'. Did you mean --undo? See: conservatory accounts import --help",
  ],
  ['accounts delte a', 2, "Unknown command 'delte'. Did you mean delete? See: conservatory accounts --help"],
  ['accounts delete', 2, "Missing required argument 'name'. See: conservatory accounts delete --help"],
  [
    'accounts delete a b',
    2,
    `Too many arguments for 'delete': it takes 1, not 2. ${quotes} See: conservatory accounts delete --help`,
  ],
  ['accounts delete a --forc', 2, "Unknown option '--forc'. See: conservatory accounts delete --help"],
  ['keys crate', 2, "Unknown command 'crate'. Did you mean create? See: conservatory keys --help"],
  [
    'keys create',
    2,
    `The option --account <name> is missing: the account that the key belongs to. The option --scopes <a,b> is missing: what the key may do: ${scopes}. See: conservatory keys create --help`,
  ],
  [
    'keys create --account a',
    2,
    `The option --scopes <a,b> is missing: what the key may do: ${scopes}. See: conservatory keys create --help`,
  ],
  [
    'keys create --acount a --scopes chat',
    2,
    "Unknown option '--acount'. Did you mean --account? See: conservatory keys create --help",
  ],
  ['keys create --account', 2, "Option '--account <name>' argument missing. See: conservatory keys create --help"],
  [
    'keys create --account a --scopes chatt',
    2,
    `Option '--scopes <a,b>' argument 'chatt' is invalid. There is no scope "chatt"; there are ${scopes}. See: conservatory keys create --help`,
  ],
  [
    'keys create --account a --scopes chat,',
    2,
    `Option '--scopes <a,b>' argument 'chat,' is invalid. There is no scope ""; there are ${scopes}. See: conservatory keys create --help`,
  ],
  [
    'keys create --account a --scopes chat --expires tomorrow',
    2,
    "Option '--expires <ISO 8601>' argument 'tomorrow' is invalid. It is not a moment; write it like 2027-01-31T12:00:00Z. See: conservatory keys create --help",
  ],
  [
    'keys create --account a --scopes chat --expires 2020-01-01',
    2,
    "Option '--expires <ISO 8601>' argument '2020-01-01' is invalid. It is past; give a moment to come. See: conservatory keys create --help",
  ],
  [
    'keys create --account a --scopes chat --limit plants=-1',
    2,
    "Option '--limit <name=value>' argument 'plants=-1' is invalid. The limit plants is \"-1\"; give a whole number from 0 to 1000000000000, or none, or default. See: conservatory keys create --help",
  ],
  [
    'keys create a --account a --scopes chat',
    2,
    `Too many arguments for 'create': it takes none, not 1. ${quotes} See: conservatory keys create --help`,
  ],
  ['keys lst', 2, "Unknown command 'lst'. Did you mean list? See: conservatory keys --help"],
  [
    'keys list a',
    2,
    `Too many arguments for 'list': it takes none, not 1. ${quotes} See: conservatory keys list --help`,
  ],
  ['keys list --account', 2, "Option '--account <name>' argument missing. See: conservatory keys list --help"],
  ['keys list --acount a', 2, "Unknown option '--acount'. Did you mean --account? See: conservatory keys list --help"],
  ['keys rotat cv_ab12', 2, "Unknown command 'rotat'. Did you mean rotate? See: conservatory keys --help"],
  [
    'keys rotate',
    2,
    'The option --overlap <seconds> is missing: how long the old key goes on working beside the new one; 0 ends it at once. See: conservatory keys rotate --help',
  ],
  [
    'keys rotate cv_ab12',
    2,
    'The option --overlap <seconds> is missing: how long the old key goes on working beside the new one; 0 ends it at once. See: conservatory keys rotate --help',
  ],
  [
    'keys rotate cv_ab12 --overlap soon',
    2,
    "Option '--overlap <seconds>' argument 'soon' is invalid. Give whole seconds from 0 to 31536000, which is a year. See: conservatory keys rotate --help",
  ],
  [
    'keys rotate cv_ab12 --overlp 1',
    2,
    "Unknown option '--overlp'. Did you mean --overlap? See: conservatory keys rotate --help",
  ],
  [
    'keys rotate cv_ab12 cv_cd34 --overlap 1',
    2,
    `Too many arguments for 'rotate': it takes 1, not 2. ${quotes} See: conservatory keys rotate --help`,
  ],
  ['keys limt cv_ab12', 2, "Unknown command 'limt'. Did you mean one of limit, list? See: conservatory keys --help"],
  [
    'keys limit',
    2,
    `The option --limit <name=value> is missing: one of ${limits}; repeat the option for each limit; with none or default the key has no limit of its own. See: conservatory keys limit --help`,
  ],
  [
    'keys limit cv_ab12',
    2,
    `The option --limit <name=value> is missing: one of ${limits}; repeat the option for each limit; with none or default the key has no limit of its own. See: conservatory keys limit --help`,
  ],
  [
    'keys limit cv_ab12 --limit chat=1',
    2,
    `Option '--limit <name=value>' argument 'chat=1' is invalid. There is no limit "chat"; there are ${limits}. See: conservatory keys limit --help`,
  ],
  [
    'keys limit cv_ab12 cv_cd34 --limit plants=1',
    2,
    `Too many arguments for 'limit': it takes 1, not 2. ${quotes} See: conservatory keys limit --help`,
  ],
  ['keys revok cv_ab12', 2, "Unknown command 'revok'. Did you mean revoke? See: conservatory keys --help"],
  ['keys revoke', 2, "Missing required argument 'prefix'. See: conservatory keys revoke --help"],
  [
    'keys revoke cv_ab12 cv_cd34',
    2,
    `Too many arguments for 'revoke': it takes 1, not 2. ${quotes} See: conservatory keys revoke --help`,
  ],
  ['keys revoke cv_ab12 --forc', 2, "Unknown option '--forc'. See: conservatory keys revoke --help"],
  ['keys cv_0123456789abcdefghijklmnopqrstuvwxyzAB', 2, "Unknown command 'cv_…'. See: conservatory keys --help"],
  [
    'keys rotate cv_ab12 --overlp=1',
    2,
    "Unknown option '--overlp'. Did you mean --overlap? See: conservatory keys rotate --help",
  ],
  [
    'keys create --account a --scopes chat --nmae x',
    2,
    "Unknown option '--nmae'. Did you mean --name? See: conservatory keys create --help",
  ],
]

describe('mistakes in the arguments of serve, accounts and keys', () => answersMistakes(answers))
