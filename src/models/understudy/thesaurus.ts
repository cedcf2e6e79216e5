import { stem } from './stem.ts'

/**
 * A small thesaurus: each line is a group of everyday English words with related meanings, so "faucet" finds a text about a tap.
 * A word may be in several groups. No word was added for a single card.
 */
const groups = `
  begin start commence
  big large huge enormous great giant massive vast
  small little tiny mini minute wee
  old ancient aged antique elderly age
  new fresh recent modern
  fast quick rapid swift speedy hurry
  strange odd weird peculiar unusual bizarre curious
  dangerous danger hazard hazardous risk risky unsafe peril perilous safe safety
  scared afraid fear frightened frighten scare terrified phobia fearful scary
  sad unhappy upset miserable depressed gloomy
  happy glad joy cheerful joyful delighted
  angry mad furious cross annoyed rage
  lonely alone lonesome solitude isolated company
  tired exhausted weary sleepy
  sleep insomnia nap rest doze slumber bed bedtime
  dream nightmare
  eat food meal dinner supper lunch breakfast dish feed diet hungry hunger starving cuisine cook cooking menu snack
  drink beverage thirsty tea coffee beer wine rum ale
  buy purchase shop shopping store market bargain trade trader merchant
  money cash currency coin coins pay payment price cost wage salary fee rich wealth expensive cheap
  steal rob theft thief heist burgle burglary robbery loot
  treasure hoard loot gold riches fortune jewels prize plunder booty
  fight battle combat attack war duel brawl
  weapon gun cannon sword harpoon pistol rifle blade armed firearm
  enemy rival foe opponent nemesis adversary villain
  friend mate pal companion buddy ally comrade
  boss chief leader captain commander commodore head charge
  crew sailor team staff member hand shipmate recruit
  join enlist recruit sign enroll
  job task mission work assignment errand employment career profession occupation gig
  plan scheme strategy
  helper assistant colleague apprentice deputy partner coworker
  founder found establish create start begin
  build built construct make assemble create construction builder made
  inventor invent creator designer
  repair fix mend restore patch
  break broken smash crack snap shatter damage damaged faulty
  stuck jam jammed stick sticking seized wedged
  blocked clog clogged block blockage plug bunged
  tap faucet spigot
  toilet loo lavatory cistern wc
  sink basin drain drainage plughole
  leak leaking drip dripping seep
  squeak squeaking creak creaking squeal noisy noise
  wobble wobbly loose unsteady rickety wobbling
  glue adhesive epoxy superglue paste stick cement
  screw bolt screwdriver nut
  strip stripped chewed mangled
  tool tools equipment gear toolbox toolkit kit
  borrow lend loan rent hire
  wall plaster drywall plasterboard
  shelf shelves bracket shelving
  cupboard wardrobe dresser cabinet drawer
  chair stool seat bench armchair
  table desk
  sofa couch settee
  lamp light bulb lantern lightbulb torch flashlight
  shine bright brightness glow beam brilliant
  dark darkness gloom shade shadow
  heater radiator heating boiler furnace
  draught draughty draft drafty breeze
  hot heat warm warmth
  cold cool chilly chill freezing frost
  electric electricity electrical wiring wire cable voltage power current
  rust rusty corrosion corroded oxidise
  clean wash scrub cleaning wipe
  dirty filthy grime mud muddy
  sharp sharpen blunt dull whetstone hone
  knife knives blade
  cup mug teacup
  pan saucepan pot
  zip zipper fastener
  jacket coat anorak parka
  jumper sweater pullover jersey cardigan
  trousers pants jeans
  sock stocking darn darning
  sew sewing stitch needle thread button
  knit knitting wool yarn crochet
  clothes clothing wear garment outfit dress
  shoe boot footwear
  bicycle bike cycle cycling
  tyre tire puncture flat
  car automobile vehicle
  lorry truck
  train railway railroad
  plane aeroplane airplane aircraft
  ship boat vessel craft
  airship zeppelin blimp dirigible
  fly flight flying float soar airborne aloft air
  fall drop sink plummet descend
  height heights high tall altitude vertigo
  travel journey trip voyage heading headed destination bound go going route
  navigate navigation navigator steer course direction
  map chart atlas
  lost astray
  far distance distant away remote
  near close nearby
  island isle rock
  mainland shore coast land ashore
  sea ocean water wave
  tide tidal ebb current
  beach sand shore
  storm thunder thunderstorm lightning tempest gale hurricane thunderhead thundercloud squall
  weather climate forecast
  predict forecast prediction foretell
  rain rainy wet drizzle shower
  wind windy breeze gust gale blow
  fog foggy mist misty haze
  snow hail ice icy
  sun sunny sunlight sunshine
  moon lunar
  star constellation planet astronomy
  fire flame burn burning
  ghost haunted spirit spooky phantom haunt spectre supernatural
  monster beast creature leviathan dragon
  magic spell wizard witch enchantment sorcery
  god religion faith pray prayer church
  animal pet beast creature
  cat kitten feline kitty
  dog puppy hound
  bird flock seabird gull
  chicken hen poultry rooster egg
  horse pony mare stallion
  cow cattle
  fish fishing
  insect bug fly gnat pest midge aphid
  slug snail
  toad frog
  poison poisonous toxic venom venomous harmful
  kill murder slay
  die death dead dying perish
  alive survive survival
  save rescue saved
  sick ill disease unwell illness sickness
  doctor physician medic nurse vet
  medicine drug pill remedy cure
  pain hurt ache sore injury wound
  plant houseplant vegetation flora
  flower bloom blossom bud flowering
  leaf leaves foliage frond
  tree wood timber oak
  seed sow germinate sprout
  reproduce breed breeding multiply propagate propagation
  cutting propagate propagation clone
  root rooting
  cut trim prune snip clip pruning
  grow growth
  soil compost earth dirt potting mix
  repot pot transplant potting container
  fertiliser fertilizer feed feeding nutrient nutrients food
  water watering irrigate moisture
  greenhouse glasshouse conservatory hothouse
  garden gardening gardener yard
  yellow yellowing
  brown browning crispy crunchy dry
  moss lichen
  cactus cacti succulent
  clean purify purifying filter pure
  house home building
  door hinge doorway
  window pane glass glazing
  lock locked unlock key
  open opening unlock
  open opening hours closed schedule
  room chamber cabin
  tower lighthouse
  stairs stair staircase steps
  road street path way
  village town city
  country nation land
  king queen monarch royal crown
  police law officer
  customs tariff tax duty inspector
  smuggle smuggling contraband
  rule rules regulation law forbidden allowed permitted prohibited
  secret hidden hide
  book novel read reading library literature
  write writing wrote author
  log logbook journal diary entry record
  letter mail post parcel delivery
  deliver delivery supply supplies bring
  music song sing singing tune melody
  dance dancing
  piano instrument keyboard
  paint painting painted coat
  colour color hue
  picture photo photograph image frame
  game play playing
  party festival celebrate celebration carnival feast
  christmas xmas yuletide holiday
  birthday anniversary
  gift present
  story tale anecdote yarn
  joke funny laugh humour
  name called title
  talk speak chat conversation speaking
  say tell
  language tongue
  word term
  think believe opinion
  know knowledge
  learn teach lesson teacher study
  school university college
  favourite favorite prefer preferred best love
  love adore like fond
  hate dislike loathe detest
  miss longing nostalgia homesick
  husband wife spouse marry marriage married wedding divorce
  mother mom mum mama
  father dad papa
  parent parents mother father
  child kid children
  brother sister sibling
  family relative
  man guy fellow bloke
  woman lady
  born birth
  past history background origin
  long duration
  day daytime
  night nighttime midnight evening
  morning dawn sunrise
  year annual
  week weekly
  hour time clock
  first initial
  last final
  see look watch seen visible view sight
  hear sound listen
  smell scent odour
  touch feel
  taste flavour
  bag pack backpack rucksack luggage satchel pouch inventory
  carry carrying hold
  box crate chest
  enter entry get
  vault safe strongroom
  escape flee
  chase pursue hunt
  board boarded aboard boarding
  pirate buccaneer corsair raider
  engine motor machine engineer
  mechanic technician engineer
  robot machine android
  computer software program
  phone telephone call
  true real truth genuine really
  lie lying false fake
  hole gap puncture
  fill filler
  wash washing laundry
  bottle flask jar
  message note
  machine device gadget appliance
  microwave oven stove cooker
  fridge refrigerator freezer
  rubbish trash garbage waste
  petrol gasoline fuel gas
  pavement sidewalk
  biscuit cookie cracker
  sweets candy
  crisps chips
  autumn fall
  holiday vacation
  worth worthwhile bother
  worry worried concern anxious
  advice tip suggestion recommend
  spanner wrench
  hammer mallet
  pliers tweezers
  rope line cord string
  knot tie
  metal iron steel brass
  spare leftover extra
  volunteer helper
  inherit own owner belong
  wet damp soggy soaked sodden
  dry arid parched
  heavy weight weigh
`

const conceptsByTerm = new Map<string, string[]>()
for (const [index, line] of groups.trim().split('\n').entries()) {
  const terms = new Set(line.trim().split(' ').map(stem))
  for (const term of terms) conceptsByTerm.set(term, [...(conceptsByTerm.get(term) ?? []), `~${index}`])
}

/** Marks of the groups that a term belongs to. A mark begins with `~`, so that no word of a text equals a mark. */
export function conceptsOf(term: string): readonly string[] {
  return conceptsByTerm.get(term) ?? []
}
