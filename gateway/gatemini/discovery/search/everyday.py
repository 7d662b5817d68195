"""Everyday English → the words of tools' names, by subject; written words that are also written in two; currencies.

Data of `lexicon.py`, in its form. Written for this project from general knowledge and from no catalog.
"""

from __future__ import annotations

EVERYDAY = """
inbox: email message mail; mailbox: email message mail; outbox: email sent; correspondence: email message letter;
newsletter: email campaign; recipient: contact address; sender: from contact; unread: email message;
vacation: holiday absence; holiday: vacation absence; leave: absence; birthday: calendar event contact;
deadline: due date task; errand: task todo; chores: task todo; remind: reminder schedule;
diary: calendar journal note; notebook: note; sticky: note; whiteboard: board diagram; busy: calendar availability;
free: available availability; slot: availability calendar; teammate: member user; boss: manager employee;
colleague: member user author; coworker: member user; staff: employee; department: team organization;
firm: company; business: company; startup: company; rival: competitor; competitor: company competitor;
client: customer; shopper: customer; guest: customer booking; buyer: customer; supplier: vendor;
bargain: discount price; refund: payment return; receipt: invoice payment; debt: balance loan; loan: credit;
salary: income; wage: income; tax: finance; savings: balance account; cash: balance margin payment;
broker: trading order; shares: stock; stocks: stock; bond: stock; portfolio: holding position; holding: portfolio position;
bet: market order; profit: earnings income; loss: profit; worth: value price; afford: price budget;
expensive: price; cheapest: price; dollars: currency; euros: currency; pounds: currency; yen: currency;
crypto: coin token; bitcoin: crypto coin; wallet: balance address;
undo: revert reset cancel; revert: undo reset; rollback: revert reset; discard: reset delete; stash: save;
blame: history author; changed: change commit history diff; changes: diff commit history;
wrote: author write commit; author: blame user; revision: commit version history; checkpoint: commit snapshot;
combine: merge; feature: branch; fork: copy; patch: diff update; proposal: request pull; propose: request pull;
review: comment approve; approve: review accept; reviewer: review request; maintainer: issue repository;
defect: bug issue; crash: error exception; bug: issue error; outage: incident alert; glitch: error issue;
broken: error failed; failing: failed error; slow: performance; speed: performance tempo; fast: performance;
leak: secret expose; leaked: secret expose; hole: vulnerability; holes: vulnerability; weakness: vulnerability;
weaknesses: vulnerability scan; flaw: vulnerability bug; hacker: threat attack; threat: detection alert;
hacked: compromise threat; suspicious: threat detection; infected: malware threat;
virus: malware threat; breach: compromise leak; compromised: threat detection; passwords: secret credential;
credentials: secret password; outdated: version dependency; dependency: package; dependencies: package;
cluster: kubernetes node; container: docker pod; pods: kubernetes pod; replica: scale; copies: replica scale duplicate;
alive: health ping; healthy: health status; responding: health ping; reachable: ping; cpu: usage resource;
ram: memory usage; usage: resource; tunnel: forward port; port: forward; staging: environment context;
production: environment; rollout: deploy; ship: deploy release; live: publish deploy; publish: release deploy;
visitors: site; logs: log; trace: log; monitor: alert metric; dashboard: panel chart; graphs: chart;
expire: ttl timeout; disappear: expire delete; temporary: expire; cached: cache; key: value;
row: record table; rows: record table data; column: field table; spreadsheet: excel sheet; workbook: excel spreadsheet;
cell: excel sheet; csv: file data table; tabular: table data; aggregate: query sum group; total: sum; average: mean;
sql: query database; records: row database; entry: record item; entries: record item; dataset: data table;
folder: directory; folders: directory; contents: list read; inside: list content; lines: text file;
rename: move; relocate: move; duplicate: copy; unzip: extract archive; zip: archive compress; backup: copy snapshot;
wipe: delete clear; trash: delete; throw: delete discard; newest: latest recent; oldest: history;
print: pdf; pdf: document; paragraph: document text; heading: document; slide: presentation;
slides: presentation; deck: presentation slide; essay: document text; handwriting: ocr; scan: ocr scan;
webpage: web page fetch; website: web site page; homepage: page web; site: website web; url: fetch link;
online: web search; surf: browse navigate; tab: browser page; login: password authenticate; button: click;
box: field input; form: fill field; type: fill input; enter: fill type; slider: drag; mouse: click drag;
swipe: drag scroll; tap: click; hover: mouse; press: click key; keyboard: key type; printout: pdf print;
screen: screenshot display; rotate: orientation turn;
phone: mobile device; iphone: ios app; android: app mobile; program: app; programs: app; apps: app;
photo: image; cartoon: image generate; drawing: image draw; artwork: image; paint: image draw; portrait: image;
logo: image icon; crop: image; blur: image; pie: chart; bars: bar chart; curve: line chart;
timeline: chart; flow: sankey diagram; hierarchy: organization tree; overlap: venn;
cause: fishbone; causes: fishbone; brainstorm: mindmap idea; idea: mindmap thought; cloud: word;
sound: audio; recording: audio; record: audio save; song: music track; tune: music track; beat: tempo;
rhythm: tempo beat; loud: audio speech volume; aloud: speech audio speak; voice: speech audio; sing: audio;
clip: video; footage: video; said: transcript; spoken: transcript speech; subtitles: transcript caption;
channel: video; watch: movie video; cinema: movie; show: tv; listen: play audio;
pregnant: pregnancy; birth: pregnancy date;
liver: hepatic; heart: cardiac cardiovascular; stroke: cardiovascular risk;
obese: bmi weight; weight: bmi mass; blood: pressure; sugar: glucose;
sick: symptom; ill: symptom; pill: drug; medication: drug; dose: dosage drug; doctor: clinical;
calories: nutrition; healthy: nutrition health; eat: food meal recipe; dinner: recipe meal; hungry: food restaurant;
fruit: nutrition; dish: recipe; dishes: recipe; ingredient: recipe; kitchen: recipe cook;
hot: temperature; cold: temperature; fahrenheit: temperature convert; celsius: temperature convert; degrees: temperature angle;
heavy: weight mass; far: distance; tall: height; long: duration length; umbrella: weather rain forecast;
rain: weather precipitation; sunny: weather; storm: weather alert; tomorrow: forecast date; tonight: evening;
drive: directions route; walk: directions route; commute: route directions; nearby: location place search;
nearest: location place; address: location geocode; coordinates: location geocode; trip: travel; fly: flight;
ticket: flight train booking; room: hotel booking; stay: hotel booking; nights: hotel booking; hotel: booking;
train: railway ticket; station: train; park: national;
study: paper research; studies: paper research; paper: research citation; scientist: author researcher;
professor: author researcher; article: paper citation; cited: citation; cites: citation; researcher: author;
meaning: definition; mean: definition average; means: definition; word: definition dictionary; spelling: dictionary;
translate: language; luck: random;
lottery: random; dice: random; shuffle: random; mix: shuffle; toss: random; prime: number;
equation: solve math; percent: percentage calculate; sum: add calculate;
nickname: username; handle: username; alias: username;
gossip: news; headlines: news; happening: news; trending: popular; viral: popular trending; complain: review rating;
complaints: review rating; opinion: review rating; feedback: review comment; stars: rating;
privacy: data; personal: privacy profile; facts: information; assistant: delegate agent; delegate: share access;
permission: access role; allow: permission access; grant: permission access; invite: add member;
chat: message channel; dm: message; ping: message notify; announce: post message; shout: post message;
tell: message notify; reply: message comment; letter: email message; note: message;
warehouse: inventory stock; shelf: inventory; parcel: shipment tracking; delivery: shipment order;
kidney: renal creatinine; pregnancy: date; child: pediatric; baby: pregnancy pediatric;
light: device switch; lamp: light device; thermostat: temperature device; door: lock device; plug: device switch;
bucket: storage object; storage: bucket file; machine: instance server; virtual: instance; firewall: rule network;
domain: dns; subdomain: dns; certificate: tls; ip: address network; traffic: network packet; packets: capture network;
bandwidth: network; router: network; host: server; hosting: deploy; serverless: function; lambda: function;
queue: message job; topic: message; broadcast: publish message; webhook: callback url; cron: schedule; job: schedule task;
nightly: schedule; pipeline: workflow build; build: pipeline workflow; ci: workflow run; workflow: run; artifact: build;
tests: test run; coverage: test; lint: check format; format: lint; refactor: edit rename; compile: build; debug: error log;
snippet: code; function: code symbol; usages: reference; callers: reference; jump: definition; autocomplete: completion;
schema: table structure; structure: schema; index: table; query: select; join: query table; migrate: migration;
embedding: vector; similar: search vector; semantic: vector search; remember: memory store; recall: memory search;
forget: memory delete; knowledge: graph memory; relation: graph entity; entity: graph node;
lead: contact crm; deal: opportunity crm; prospect: contact lead; pipeline: deal workflow; subscription: billing plan;
charge: payment; payout: transfer payment; bill: invoice; billing: invoice payment; chargeback: dispute;
sprint: iteration issue; backlog: issue task; epic: issue; story: issue; kanban: board; milestone: project;
ticket: issue; support: ticket; escalate: assign ticket; assign: owner user; owner: assign user;
mesh: object 3d; scene: object; render: image scene; animate: animation; sprite: asset; shader: material;
flat: property apartment; apartment: property listing; rent: property listing; mortgage: property loan;
symptom: condition; disease: condition clinical; vaccine: clinical; gene: sequence protein; protein: structure;
molecule: compound chemical; chemical: compound; star: astronomy; planet: astronomy; asteroid: nasa; earthquake: event;
law: legal statute; court: case legal; contract: document legal; patent: search; vote: election bill; senator: member;
team: player sports; match: game fixture; score: game result; league: team standings; player: stats team;
course: class lesson; exam: quiz; homework: assignment; student: class; teacher: class; quiz: question;
book: library isbn; novel: book; poem: text; quote: text; lyrics: song; podcast: episode audio; episode: show podcast;
flight: airline; airport: flight; visa: travel; border: country; country: region; capital: country; population: statistics;
car: vehicle; bus: transit; subway: transit; bike: route; parking: location; fuel: price; charger: station;
clock: time timezone; now: current time; today: date current; ago: time difference; hours: time; countdown: timer;
resize: image scale; thumbnail: image resize; transparent: background image; compress: reduce archive; gif: image animation;
merge: combine; split: divide; sort: order; filter: query; deduplicate: unique; unique: distinct; count: number total;
encrypt: cipher; decrypt: cipher; hash: checksum; token: secret auth; sign: signature; signature: verify; uuid: generate id;
summarise: summarize; shorten: summarize; proofread: grammar text; grammar: text; rewrite: edit text; outline: structure;
basket: cart; checkout: cart payment; catalogue: product; goods: product;
"""

COMPOUNDS = """
web page; web site; web hook; web socket; data base; data set; data source; file name; file system; user name; pass word;
time zone; time line; time stamp; screen shot; key word; key board; home page; work flow; work space; work book; work sheet;
work item; spread sheet; check list; play list; white list; black list; allow list; road map; mind map; sub task; sub folder;
sub title; sub domain; sub scription; end point; back up; roll back; log in; sign up; set up; pod cast; voice mail; e mail;
news letter; head line; stand up; white board; dash board; flow chart; note book; code base; source code; pull request;
change log; life cycle; run book; run time; type script; java script; post code; zip code; bar code; air port; rail way;
street view; super chart; net work; fire wall; black board; story board; hash tag; meta data; name space; place holder;
look up; check out; check in; drop down; tool kit; test case; unit test; smart contract; stop watch; foot note; side bar;
"""

CURRENCIES = """aed aud bdt bgn brl cad chf clp cny cop czk dkk egp eur gbp hkd huf idr ils inr isk jpy krw mad mxn
myr ngn nok nzd pen php pkr pln ron rsd rub sar sek sgd thb try twd uah usd vnd zar"""
"""Codes of the currencies traded most (ISO 4217)."""
