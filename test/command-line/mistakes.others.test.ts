import { describe } from 'vitest'
import { type Answer, answersMistakes } from '../support/mistakes.ts'

const quotes = 'A value with spaces needs quotes.'

const answers: readonly Answer[] = [
  ['plant share', 2, "Unknown command 'plant'. Did you mean plants? See: conservatory --help"],
  ['plants shar', 2, "Unknown command 'shar'. Did you mean share? See: conservatory plants --help"],
  [
    'plants share',
    2,
    'The option --from <account> is missing: the account that owns the plants. The option --to <account> is missing: the account that is to see them; it can never change them. See: conservatory plants share --help',
  ],
  [
    'plants share --from a',
    2,
    'The option --to <account> is missing: the account that is to see them; it can never change them. See: conservatory plants share --help',
  ],
  ['plants share --from a --to', 2, "Option '--to <account>' argument missing. See: conservatory plants share --help"],
  [
    'plants share --form a --to b',
    2,
    "Unknown option '--form'. Did you mean --from? See: conservatory plants share --help",
  ],
  [
    'plants share a b --from a --to b',
    2,
    `Too many arguments for 'share': it takes none, not 2. ${quotes} See: conservatory plants share --help`,
  ],
  ['plants unshar', 2, "Unknown command 'unshar'. Did you mean unshare? See: conservatory plants --help"],
  [
    'plants unshare',
    2,
    'The option --from <account> is missing: the account that owns the plants. The option --to <account> is missing: the account that sees them. See: conservatory plants unshare --help',
  ],
  [
    'plants unshare --from a',
    2,
    'The option --to <account> is missing: the account that sees them. See: conservatory plants unshare --help',
  ],
  [
    'plants unshare --from a --to b --tg c',
    2,
    "Unknown option '--tg'. Did you mean one of --tag, --to? See: conservatory plants unshare --help",
  ],
  [
    'plants unshare a --from a --to b',
    2,
    `Too many arguments for 'unshare': it takes none, not 1. ${quotes} See: conservatory plants unshare --help`,
  ],
  ['plants shres', 2, "Unknown command 'shres'. Did you mean shares? See: conservatory plants --help"],
  [
    'plants shares a',
    2,
    `Too many arguments for 'shares': it takes none, not 1. ${quotes} See: conservatory plants shares --help`,
  ],
  ['plants shares --jsn', 2, "Unknown option '--jsn'. Did you mean --json? See: conservatory plants shares --help"],
  ['character list', 2, "Unknown command 'character'. Did you mean characters? See: conservatory --help"],
  ['characters lst', 2, "Unknown command 'lst'. Did you mean list? See: conservatory characters --help"],
  [
    'characters list Fern',
    2,
    `Too many arguments for 'list': it takes none, not 1. ${quotes} See: conservatory characters list --help`,
  ],
  [
    'characters list --acount a',
    2,
    "Unknown option '--acount'. Did you mean --account? See: conservatory characters list --help",
  ],
  [
    'characters list --account',
    2,
    "Option '--account <name>' argument missing. See: conservatory characters list --help",
  ],
  ['characters imprt a.json', 2, "Unknown command 'imprt'. Did you mean import? See: conservatory characters --help"],
  ['characters import', 2, "Missing required argument 'file'. See: conservatory characters import --help"],
  [
    'characters import a.json --replce',
    2,
    "Unknown option '--replce'. Did you mean --replace? See: conservatory characters import --help",
  ],
  [
    'characters import a.json --account',
    2,
    "Option '--account <name>' argument missing. See: conservatory characters import --help",
  ],
  ['characters exprt Fern', 2, "Unknown command 'exprt'. Did you mean export? See: conservatory characters --help"],
  ['characters export', 2, "Missing required argument 'name'. See: conservatory characters export --help"],
  [
    'characters export Fern --format gif',
    2,
    "Option '--format <format>' argument 'gif' is invalid. Allowed choices are json, v2, png, charx. See: conservatory characters export --help",
  ],
  [
    'characters export Fern --fromat png',
    2,
    "Unknown option '--fromat'. Did you mean --format? See: conservatory characters export --help",
  ],
  [
    'characters export Fern Moss',
    2,
    `Too many arguments for 'export': it takes 1, not 2. ${quotes} See: conservatory characters export --help`,
  ],
  ['characters chek a.json', 2, "Unknown command 'chek'. Did you mean check? See: conservatory characters --help"],
  ['characters check', 2, "Missing required argument 'file'. See: conservatory characters check --help"],
  [
    'characters check a.json --jsn',
    2,
    "Unknown option '--jsn'. Did you mean --json? See: conservatory characters check --help",
  ],
  ['characters tst Fern', 2, "Unknown command 'tst'. Did you mean test? See: conservatory characters --help"],
  [
    'characters test',
    2,
    'The option --model <model> is missing: the model that plays it. See: conservatory characters test --help',
  ],
  [
    'characters test Fern',
    2,
    'The option --model <model> is missing: the model that plays it. See: conservatory characters test --help',
  ],
  [
    'characters test Fern --model',
    2,
    "Option '--model <model>' argument missing. See: conservatory characters test --help",
  ],
  [
    'characters test Fern --modl understudy',
    2,
    "Unknown option '--modl'. Did you mean --model? See: conservatory characters test --help",
  ],
  [
    'characters test Fern Moss --model understudy',
    2,
    `Too many arguments for 'test': it takes 1, not 2. ${quotes} See: conservatory characters test --help`,
  ],
  ['model check', 2, "Unknown command 'model'. Did you mean models? See: conservatory --help"],
  ['models chek', 2, "Unknown command 'chek'. Did you mean check? See: conservatory models --help"],
  [
    'models check understudy',
    2,
    `Too many arguments for 'check': it takes none, not 1. ${quotes} See: conservatory models check --help`,
  ],
  ['models check --jsn', 2, "Unknown option '--jsn'. Did you mean --json? See: conservatory models check --help"],
  ['usge', 2, "Unknown command 'usge'. Did you mean usage? See: conservatory --help"],
  ['usage --form 2026-01-01', 2, "Unknown option '--form'. Did you mean --from? See: conservatory usage --help"],
  [
    'usage --from tomorrow',
    2,
    'The value of "from" is not a day or a moment: write it like 2026-11-20 or 2026-11-20T08:00:00Z.',
  ],
  [
    'usage --to 2026-02-30',
    2,
    'The value of "to" is not a day or a moment: write it like 2026-11-20 or 2026-11-20T08:00:00Z.',
  ],
  [
    'usage --from 2026-01-02 --to 2026-01-01',
    2,
    'The value of "from" leaves no time: "from" must be before "to", and not in the future.',
  ],
  [
    'usage --by wek',
    2,
    "Option '--by <what>' argument 'wek' is invalid. Allowed choices are day, model, key, character, account. See: conservatory usage --help",
  ],
  ['usage --account', 2, "Option '--account <name>' argument missing. See: conservatory usage --help"],
  ['usage today', 2, `Too many arguments for 'usage': it takes none, not 1. ${quotes} See: conservatory usage --help`],
  ['usage --csv --json', 2, "Option '--csv' cannot be used with option '--json'. See: conservatory usage --help"],
  ['bakup a.db', 2, "Unknown command 'bakup'. Did you mean backup? See: conservatory --help"],
  ['check a.db', 2, `Too many arguments for 'check': it takes none, not 1. ${quotes} See: conservatory check --help`],
  ['backup', 2, 'Give either a file, or a folder with --to. See: conservatory backup --help'],
  [
    'backup a.db b.db',
    2,
    `Too many arguments for 'backup': it takes 1, not 2. ${quotes} See: conservatory backup --help`,
  ],
  ['backup a.db --forc', 2, "Unknown option '--forc'. See: conservatory backup --help"],
  ['restor a.db', 2, "Unknown command 'restor'. Did you mean restore? See: conservatory --help"],
  ['restore', 2, "Missing required argument 'file'. See: conservatory restore --help"],
  [
    'restore a.db b.db',
    2,
    `Too many arguments for 'restore': it takes 1, not 2. ${quotes} See: conservatory restore --help`,
  ],
  ['restore a.db --froce', 2, "Unknown option '--froce'. Did you mean --force? See: conservatory restore --help"],
  ['migrat', 2, "Unknown command 'migrat'. Did you mean migrate? See: conservatory --help"],
  [
    'migrate',
    2,
    'The option --from <url> is missing: the database to move: sqlite:./path or postgres://host/name. The option --to <url> is missing: an empty database, or the same one again to go on. See: conservatory migrate --help',
  ],
  [
    'migrate --from sqlite:a.db',
    2,
    'The option --to <url> is missing: an empty database, or the same one again to go on. See: conservatory migrate --help',
  ],
  [
    'migrate --from a.db --to b.db',
    2,
    "Option '--from <url>' argument 'a.db' is invalid. Give sqlite:./path or postgres://host/name. See: conservatory migrate --help",
  ],
  [
    'migrate --from sqlite:a.db --to mysql://me:secret@host/name',
    2,
    "Option '--to <url>' argument 'mysql://…@host/name' is invalid. Give sqlite:./path or postgres://host/name. See: conservatory migrate --help",
  ],
  [
    'migrate --form sqlite:a.db --to b',
    2,
    "Option '--to <url>' argument 'b' is invalid. Give sqlite:./path or postgres://host/name. See: conservatory migrate --help",
  ],
  [
    'migrate a --from sqlite:a.db --to sqlite:b.db',
    2,
    `Too many arguments for 'migrate': it takes none, not 1. ${quotes} See: conservatory migrate --help`,
  ],
]

describe('mistakes in the arguments of all other commands', () => answersMistakes(answers))
