"""Vocabulary of people and of tools: short forms, synonyms, other languages.

General knowledge of the field, written for this project and not taken from any catalog: a colloquial, shortened or
foreign word → the words in the names and descriptions of tools. They get a share of the word's weight, so that the word
itself counts most.
"""

from __future__ import annotations

import re

from gatemini.discovery.search.everyday import COMPOUNDS, CURRENCIES, EVERYDAY
from gatemini.discovery.search.words import fold, is_unspaced, stem

_SHORT_FORMS = """
acct: account; addr: address; admin: administrator; agg: aggregate; alloc: allocate; amt: amount;
app: application; apps: application; arch: archive; arg: argument; args: argument; async: asynchronous;
attr: attribute; auth: authentication; avg: average; bal: balance; bg: background; btn: button;
cal: calendar; calc: calculate; cat: read file; cd: directory; cert: certificate; cfg: configuration;
chk: check; cmd: command; cmt: comment; col: column; coll: collection; conf: configuration;
config: configuration; conn: connection; conv: convert; convo: conversation; coord: coordinate;
cp: copy file; crt: create; css: style; csv: spreadsheet data; ctx: context; cur: current;
curl: fetch request; cust: customer; cv: resume; db: database; dbs: database; def: definition;
defn: definition; del: delete; dep: dependency; deps: dependency; desc: description; dest: destination;
dev: device; df: disk; diag: diagram; dict: dictionary; diff: difference; dim: dimension;
dir: directory; dirs: directory; dist: distance; dl: download; dm: message; dns: domain; doc: document;
docs: document; docx: word document; dom: domain; du: disk; dup: duplicate; dupe: duplicate;
elem: element; embed: embedding; env: environment; err: error; est: estimate; eth: ethereum; evt: event;
exec: execute; exp: export; ext: extension; fav: favorite; fn: function; freq: frequency;
fs: filesystem; func: function; fx: currency exchange; gen: generate; geo: location;
geoloc: geolocation; gh: github; gif: image; gl: gitlab; gps: location; grep: search file; grp: group;
hist: history; hr: employee; img: image; imgs: image; impl: implementation; info: information;
init: initialize; ins: insert; inst: install; inv: invoice; iss: issue; jpeg: image; jpg: image;
k8s: kubernetes; kb: knowledge; kill: terminate process; lang: language; lib: library; libs: library;
loc: location; ls: list directory; lst: list; lyr: layer; maint: maintenance; max: maximum;
md: markdown; med: medical; mem: memory; mgmt: management; mgr: manager; min: minimum;
mkdir: create directory; mod: module; mp3: audio; mp4: video; msg: message; msgs: message; mtg: meeting;
mv: move file; nav: navigate; net: network; notif: notification; num: number; obj: object;
ocr: text recognition; ops: operation; opt: option; org: organization; orgs: organization;
param: parameter; params: parameter; pct: percentage; perf: performance; perm: permission;
perms: permission; pg: postgres; pic: picture image; pics: picture image; pkg: package; pkgs: package;
png: image; pos: position; ppt: powerpoint presentation; pptx: powerpoint presentation;
pr: pull request; pref: preference; prefs: preference; prev: previous; proc: process; prod: product;
prof: profile; proj: project; prs: pull request; ps: list process; pwd: password; qry: query;
qty: quantity; rand: random; rec: record; recs: recommendation; ref: reference; refs: reference;
reg: register; regex: expression; rel: release; repo: repository; repos: repository; req: request;
res: resource; resp: response; ret: return; rm: delete; rmdir: delete directory; rt: retweet;
sched: schedule; sec: security; sel: select; seq: sequence; sess: session; sim: simulation; snd: send;
spec: specification; specs: specification; sql: query database; src: source; ssl: certificate;
stat: statistics; stats: statistics; std: standard; stmt: statement; str: string; sub: subscription;
subs: subscription; svc: service; sync: synchronize; sys: system; tbl: table; temp: temperature;
tmpl: template; todo: task; todos: task; tok: token; touch: create file; trans: translate;
transl: translate; trk: track; ts: timestamp; tts: speech; tx: transaction; txn: transaction; txt: text;
typ: type; tz: timezone; ui: interface; upd: update; usr: user; util: utility; val: value;
var: variable; vars: variable; ver: version; vid: video; vids: video; vm: machine; vol: volume;
vuln: vulnerability; vulns: vulnerability; wiki: wikipedia; win: window; ws: workspace; wthr: weather;
xfer: transfer; xls: excel spreadsheet; xlsx: excel spreadsheet; yr: year; yt: youtube;
zip: archive compress;
"""

_SYNONYMS = """
abort: cancel stop; absent: missing; accommodation: hotel listing; adjust: update set;
agenda: calendar event; airbnb: listing; airplane: flight; alarm: alert reminder; album: photo;
alter: update modify; amend: update; answer: reply respond; apartment: property listing;
append: add insert; appointment: calendar event meeting; article: paper news page; ask: query question;
assemble: build create; assign: set update; attach: add upload; author: user; backup: export snapshot;
bash: command shell; begin: start create; bill: invoice; bitcoin: crypto; block: ban;
blog: post article; book: reserve booking; bookmark: save favorite; boot: start; brain: memory;
branch: version; brief: summary; browse: navigate list web; browser: web page; bug: issue error;
build: create; buy: purchase order; calculate: compute; call: request invoke; caption: transcript;
capture: screenshot; card: task; cash: payment; catalog: list; chat: message conversation; cheap: price;
check: get verify status; choose: select; chore: task; chunk: split; clean: clear delete; clip: video;
clock: time; clone: copy; close: end; cloud: server; code: source; codebase: repository;
coin: crypto currency; colleague: user member; combine: merge join; comment: reply;
company: organization business; compare: diff; compile: build; complete: finish; compose: create write;
compress: archive; compute: calculate; contact: person user; container: docker; cook: recipe;
copy: duplicate clone; cost: price; coworker: user member; craft: create; crash: error;
crawl: scrape web; coupon: discount; customer: user client; cut: trim; dashboard: report; database: table; date: time;
deal: price;
deck: presentation slide; decode: parse; defect: issue; demonstrate: show; deploy: release;
describe: get detail; design: create; destroy: delete; detail: information; detect: find;
determine: get; diagram: chart graph; dial: call; dice: random roll; digest: summary;
dinner: recipe meal; direction: route map; discard: delete; discover: search find; discuss: comment;
discount: coupon; disease: medical; dispatch: send; display: show get; doctor: medical; document: file; dollar: currency;
download: get; draft: create; draw: generate create; drink: recipe; drive: route; drop: delete;
duplicate: copy; earn: income; edit: update modify; email: mail message; employee: user; empty: clear;
encode: convert; end: stop close; enlarge: resize; enter: type fill; enumerate: list; equity: stock;
erase: delete remove; error: log exception; evaluate: calculate; examine: inspect analyze;
exchange: convert rate; execute: run; exhibit: show; expense: cost; explain: describe; explore: search;
export: download save; extract: get parse; fetch: get retrieve; figure: chart image; file: document;
fill: type; film: movie video; filter: search; find: search; finish: complete close; fix: repair update;
flat: property; flight: airline; flowchart: diagram; folder: directory; follow: subscribe;
food: meal recipe; footage: video; forecast: weather predict; forward: send; friend: user contact;
gather: collect get; generate: create; glance: view; go: navigate; google: search web; grab: get fetch;
grade: score; graph: chart; group: team; grow: increase; guess: predict; guide: documentation;
halt: stop; handbook: documentation; headline: news; hire: job; history: log; hole: vulnerability;
home: property; host: server; hotel: accommodation; house: property; hunt: search; identify: find;
illness: medical; illustrate: image; image: picture photo; import: load; improve: update optimize;
include: add; income: revenue; increase: update; inform: notify send; inquire: query;
insert: add create; inspect: get view; install: setup; instance: server; instruct: command;
internet: web online; inventory: stock; investigate: search analyze; invite: add member; job: position; join: merge;
joke: random; jot: note create; journal: paper log; journey: trip route; keep: save store; kick: remove;
label: tag; language: translate; launch: start run; learn: get documentation; leave: exit;
lesson: course; letter: email; link: url; listen: audio; load: read import; locate: find search;
location: place map; lock: restrict; login: authenticate; look: search view; lookup: search find;
lot: batch; lunch: meal restaurant; machine: server; mail: email message; make: create generate;
manual: documentation; map: location; mark: set update; match: search; math: calculate; mean: average;
measure: metric; medicine: drug; meeting: event calendar; melody: music; member: user; memo: note;
memorize: memory store; mention: comment; menu: list; merge: combine; message: send chat;
metric: statistic; mindmap: diagram; minutes: note; mistake: error; modify: update edit;
molecule: compound; money: payment balance; monitor: watch status; movie: film video; music: song track;
navigate: open; new: create latest; news: article; nickname: name; notify: send message; number: count;
obtain: get retrieve; occasion: event; online: web; open: navigate; order: purchase; organize: sort;
outage: incident; outline: summary; overview: summary; owner: user; page: web; paint: draw image;
paper: article; parcel: shipment; parse: extract; password: secret credential; paste: insert;
patch: update; pay: payment; people: user person; person: user; phone: number; photo: image;
photograph: image; phrase: text; pick: select choose; picture: image photo; piece: part; pin: bookmark;
place: location; plane: flight; planet: astronomy; playlist: music; plot: chart graph; poll: vote;
post: publish create; predict: forecast; prepare: create; present: show; press: click;
price: cost quote; print: output; problem: issue; produce: create generate; product: item;
program: code script; promote: publish; proof: verify; prose: text; provide: get; publish: post release;
pull: get fetch; purchase: buy order; purge: delete; push: send upload; put: set upload;
question: query; quick: fast; quit: exit close; rail: train; rain: weather; raise: increase create;
rank: sort; rate: score; reach: contact; read: get view; reboot: restart; recall: memory get;
receipt: invoice; recent: latest; recipe: meal cook; recognize: detect; record: save; recover: restore;
refresh: update reload; register: create; reject: decline; release: publish; reload: refresh;
remark: comment; remember: memory store; remind: reminder; remove: delete; rename: move update;
rent: property; repair: fix; repeat: loop; replace: update; reply: comment respond;
report: create summary; repository: project; research: search paper; reserve: booking; reset: clear;
resize: scale; respond: reply; restaurant: place food; restore: recover; retrieve: get fetch;
return: get; revenue: income; revert: restore; review: comment; revise: update; ride: route;
roll: random; room: booking; route: direction; run: execute; sale: order; save: store write;
say: speech; scan: analyze; schedule: create event; science: paper; scrape: extract web;
screen: screenshot; screenshot: capture; script: code; scroll: page; secret: key; see: view get;
seek: search; select: choose; sell: order; send: post; server: host; session: login; shape: draw;
share: send; sheet: spreadsheet; shell: command terminal; ship: deliver; shop: store product;
shorten: summarize; show: get list; shrink: resize compress; shut: close stop; sickness: medical;
sign: authenticate; site: website web; sketch: draw; sleep: wait; slide: presentation; snap: screenshot;
snapshot: backup; song: track music; sort: order; source: code; space: astronomy; speak: speech voice;
speech: audio voice; spend: cost; split: divide; spreadsheet: excel sheet; stack: list; star: favorite;
start: run begin; statistic: metric; stock: share equity; stop: cancel terminate; store: save;
story: article; study: paper research; submit: create send; subtitle: transcript; sum: add calculate;
summary: summarize; sunny: weather; survey: form; suspend: pause; switch: change; symptom: medical;
table: database; tag: label; talk: message speech; tap: click; task: todo; teammate: user member;
tear: delete; tell: send get; temperature: weather; terminal: command; terminate: stop; text: message;
thread: conversation; ticker: stock; ticket: issue; timetable: schedule; tone: sentiment;
topic: subject; total: sum count; trace: log; track: monitor; trade: order; train: railway;
transcribe: transcript speech; transcript: caption; transfer: move send; transform: convert;
translate: language; transmit: send; trash: delete; travel: trip; tree: structure; trend: trending;
trip: travel route; turn: convert; tweet: twitter; type: enter fill; undo: revert; uninstall: remove;
unit: convert; unzip: extract; upload: add; url: link web; user: account; utter: speech; vacancy: job;
vendor: supplier; voucher: coupon discount; verify: check validate; video: movie; view: get show; visit: navigate;
visualize: chart; voice: speech audio; vote: rate; vulnerability: security; wait: sleep;
wallet: balance; warn: alert; watch: monitor video; weakness: vulnerability; wealth: balance;
weather: forecast; web: internet; website: web page; wipe: clear delete; wire: transfer;
workbook: excel; workmate: user; workout: exercise; write: create; zoom: resize;
"""

# English: the same in Spanish, French, German, Italian, Portuguese, Dutch, Polish, Russian, Chinese, Japanese,
# Korean.
_LANGUAGES = """
add: añadir agregar ajouter hinzufügen aggiungere adicionar toevoegen dodaj добавить 添加 追加 추가;
address: dirección adresse indirizzo endereço adres адрес 地址 住所 주소;
all: todos todas tous toutes alle tutti все 所有 全部 すべて 모든;
analyze: analizar analyser analysieren analizzare analisar анализировать анализ 分析 분석;
audio: аудио 音频 音声 오디오;
book: libro livre buch livro książka книга 书 本 책;
branch: rama branche zweig ramo ветка ветку 分支 ブランチ 브랜치;
calculate: calcular calculer berechnen calcolare вычислить рассчитать 计算 計算 계산;
calendar: calendario calendrier kalender calendário календарь 日历 カレンダー 캘린더;
cancel: cancelar annuler abbrechen stornieren annullare отменить 取消 キャンセル 취소;
change: cambiar changer ändern cambiare alterar mudar изменить 更改 变更 変更 변경;
chart: gráfico graphique diagramm grafico диаграмма диаграмму график 图表 グラフ 차트;
city: ciudad ville stadt città cidade город 城市 都市 도시;
cloud: nube nuage wolke nuvola nuvem облако 云 雲 クラウド 구름;
code: código codice код 代码 コード 코드;
comment: comentario commentaire kommentar commento comentário комментарий 评论 コメント 댓글;
convert: convertir umwandeln konvertieren convertire converter конвертировать 转换 変換 변환;
copy: copiar copier kopieren copiare копировать 复制 コピー 복사;
create: crear créer erstellen erzeugen anlegen creare criar maken utwórz создать 创建 新建 作成 作る 생성 만들기;
currency: moneda devise monnaie währung valuta moeda валюта валют 货币 通貨 통화;
customer: cliente client kunde клиент 客户 顧客 고객;
data: datos données daten dati dados данные 数据 データ 데이터;
database: datenbank basedatos база 数据库 データベース 데이터베이스;
date: fecha datum data дата 日期 日付 날짜;
delete: eliminar borrar supprimer löschen cancellare eliminare excluir apagar verwijderen usuń удалить
    删除 削除 삭제;
directory: carpeta directorio dossier répertoire ordner verzeichnis cartella pasta map папка папку 目录
    文件夹 フォルダ 폴더;
document: documento dokument документ 文档 文書 ドキュメント 문서;
download: descargar télécharger herunterladen scaricare baixar pobierz скачать загрузить 下载 ダウンロード 다운로드;
draw: dibujar dessiner zeichnen disegnare desenhar рисовать нарисовать 画 绘制 描く 그리기;
edit: editar modifier bearbeiten modificare редактировать 编辑 編集 편집;
email: correo courriel mail posta почта письмо 邮件 电子邮件 メール 이메일 메일;
error: errore fehler erreur erro ошибка ошибки 错误 エラー 오류;
event: evento événement ereignis termin событие 事件 活动 イベント 일정;
execute: ejecutar exécuter ausführen eseguire executar выполнить запустить 执行 运行 実行 실행;
file: archivo fichero fichier datei bestand arquivo plik файл файлы 文件 ファイル 파일;
find: encontrar trouver finden trovare vind znajdź найти 查找 見つける 찾기;
flight: vuelo vol flug volo voo рейс 航班 フライト 항공편;
folder: carpeta dossier ordner cartella pasta папка 文件夹 フォルダ 폴더;
food: comida nourriture essen cibo еда 食物 食べ物 음식;
game: juego jeu spiel gioco jogo игра 游戏 ゲーム 게임;
generate: generar générer generieren generare gerar сгенерировать генерировать 生成 생성;
get: obtener obtenir holen abrufen ottenere obter ophalen pobierz получить 获取 取得 가져오기;
history: historial historique verlauf cronologia histórico история 历史 履歴 기록;
hotel: hôtel отель 酒店 ホテル 호텔;
image: imagen bild immagine imagem afbeelding obraz изображение картинка картинку 图片 图像 画像 이미지 사진;
inventory: inventario inventaire lagerbestand 库存 在庫 재고;
insert: insertar insérer einfügen inserire inserir вставить 插入 挿入 삽입;
invoice: factura facture rechnung fattura fatura faktura 发票 請求書 청구서;
issue: problema incidencia problème задача 问题 課題 이슈;
language: idioma langue sprache lingua язык 语言 言語 언어;
latest: último dernier neueste ultimo последний 最新 최신;
list: listar lister auflisten elencare lista liste список 列出 列表 一覧 リスト 목록;
location: ubicación lieu standort ort luogo local место 位置 場所 위치;
map: mapa carte karte mappa карта 地图 地図 지도;
market: mercado marché markt рынок 市场 市場 시장;
meal: comida repas mahlzeit pasto refeição 餐 食事 식사;
memory: memoria mémoire gedächtnis speicher memória память 记忆 内存 メモリ 메모리;
merge: fusionar fusionner zusammenführen unire объединить слить 合并 マージ 병합;
message: mensaje nachricht messaggio mensagem bericht wiadomość сообщение 消息 メッセージ 메시지;
money: dinero argent geld soldi denaro dinheiro деньги 钱 お金 돈;
move: mover déplacer verschieben spostare переместить 移动 移動 이동;
movie: película film filme фильм 电影 映画 영화;
music: música musique musik musica музыка музыку 音乐 音楽 음악;
name: nombre nom имя 名称 名前 이름;
news: noticias nouvelles actualités nachrichten notizie notícias новости 新闻 ニュース 뉴스;
note: nota notiz заметка 笔记 メモ ノート 메모 노트;
number: número nombre zahl nummer numero номер число 数字 数 숫자 번호;
open: abrir ouvrir öffnen aprire открыть 打开 開く 열기;
order: pedido commande bestellung ordine заказ 订单 注文 주문;
page: página seite pagina страница страницу 页面 网页 ページ 페이지;
paper: artículo artikel articolo artigo статья статьи 论文 論文 논문;
password: contraseña passwort senha пароль 密码 パスワード 비밀번호;
pay: pagar payer bezahlen pagare оплатить 支付 支払う 결제;
person: persona personne человек люди 人 사람;
photo: foto fotografía фото 照片 写真 사진;
pie: circular camembert kreisdiagramm torta круговая 饼 饼图 円グラフ 파이;
play: reproducir jouer abspielen riprodurre воспроизвести 播放 再生 재생;
playlist: плейлист 播放列表 歌单 プレイリスト 재생목록;
price: precio prix preis prezzo preço цена цену 价格 価格 가격;
product: producto produit produkt prodotto produto продукт товар 产品 商品 製品 제품;
project: proyecto projet projekt progetto projeto проект 项目 プロジェクト 프로젝트;
query: consulta requête abfrage запрос 查询 クエリ 쿼리;
random: aleatorio aléatoire zufällig zufall casuale случайный случайное 随机 ランダム 무작위;
read: leer lire lesen leggere ler lezen czytaj прочитать читать 读取 阅读 読む 読み取り 읽기;
recipe: receta recette rezept ricetta receita рецепт 食谱 菜谱 レシピ 레시피;
remove: quitar enlever retirer entfernen rimuovere remover убрать 移除 除去 제거;
rename: renombrar renommer umbenennen rinominare renomear переименовать 重命名 名前変更 이름변경;
repository: repositorio dépôt repo репозиторий 仓库 リポジトリ 저장소;
reserve: reservar réserver reservieren buchen prenotare забронировать 预订 予約 예약;
restaurant: restaurante ristorante ресторан 餐厅 レストラン 식당;
route: ruta itinéraire strecke percorso rota маршрут 路线 経路 ルート 경로;
save: guardar enregistrer sauvegarder speichern salvare salvar сохранить 保存 저장;
schedule: horario horaire zeitplan orario расписание 日程 スケジュール 일정;
screenshot: captura bildschirmfoto скриншот 截图 截屏 屏幕截图 スクリーンショット 스크린샷;
search: buscar busca rechercher chercher suchen suche cercare ricerca pesquisar zoeken szukaj искать
    поиск найти 搜索 查找 检索 検索 검색;
send: enviar envoyer senden schicken inviare mandare verzenden wyślij отправить 发送 送信 送る 보내기 전송;
server: servidor serveur сервер 服务器 サーバー 서버;
show: mostrar montrer anzeigen zeigen mostrare показать 显示 表示 보여주기;
song: canción chanson lied canzone canção песня песню 歌曲 曲 노래;
spreadsheet: tableur tabelle foglio planilha таблица таблицу 表格 电子表格 スプレッドシート 스프레드시트;
stock: acciones bourse aktie aktien azioni ações акции 股票 株 株価 주식;
stop: detener parar arrêter stoppen anhalten fermare остановить 停止 중지;
summarize: resumir résumer zusammenfassen riassumere суммировать кратко 总结 摘要 要約 요약;
table: tabla tableau tabelle tabella tabela таблица 表 テーブル 테이블;
task: tarea tâche aufgabe compito attività tarefa zadanie задача задачу 任务 タスク 할일 작업;
team: equipo équipe команда 团队 チーム 팀;
text: texto texte testo текст 文本 文字 テキスト 텍스트;
ticket: billete billet fahrkarte biglietto bilhete билет билеты 车票 票 切符 チケット 티켓;
time: hora tempo heure zeit uhrzeit ora время 时间 時間 時刻 시간;
track: pista canción morceau titel brano faixa трек 曲目 トラック 트랙;
train: tren zug treno trem поезд 火车 列车 電車 列車 기차;
translate: traducir traduire übersetzen tradurre traduzir vertalen перевести 翻译 翻訳 번역;
update: actualizar aktualisieren aggiornare atualizar обновить 更新 업데이트;
upload: subir téléverser hochladen caricare carregar загрузить 上传 アップロード 업로드;
user: usuario utilisateur benutzer nutzer utente usuário пользователь пользователя 用户 ユーザー 사용자;
video: vídeo vidéo видео 视频 動画 ビデオ 비디오 동영상;
weather: tiempo clima météo wetter meteo tempo pogoda погода погоду 天气 天気 날씨;
web: internet интернет 网络 网页 ウェブ 웹;
word: palabra mot wort parola palavra слово слов 词 词云 単語 단어;
write: escribir écrire schreiben scrivere escrever написать записать 写 写入 書く 書き込み 쓰기;
"""

FOREIGN_STOP_WORDS = frozenset(
    """al aller das de dei del della dem den der des die dos du ein eine einem einen einer el en est et la las le les
    lo los mit na nach nel o oder ou para per por pour que sobre su sur till um un una une und uno van vom von voor y
    zu zum zur в во для и из на о об от по с со""".split()  # noqa: SIM905
)
"""Function words of other languages, left out of queries like English ones."""

_ENTRY = re.compile(r"([^:;]+):([^;]+);")


def _parsed(text: str) -> dict[str, tuple[str, ...]]:
    return {match[1].strip(): tuple(match[2].split()) for match in _ENTRY.finditer(text)}


def _foreign() -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return foreign word → stems, for scripts with spaces and for those without."""
    spaced: dict[str, list[str]] = {}
    unspaced: dict[str, list[str]] = {}
    for english, others in _parsed(_LANGUAGES).items():
        for word in others:
            table = unspaced if is_unspaced(word) else spaced
            table.setdefault(fold(word), []).append(stem(english))
    return (
        {word: tuple(dict.fromkeys(stems)) for word, stems in spaced.items()},
        {word: tuple(dict.fromkeys(stems)) for word, stems in unspaced.items()},
    )


def _merged(*texts: str) -> dict[str, tuple[str, ...]]:
    """Return stem → stems of the entries of several tables."""
    found: dict[str, dict[str, None]] = {}
    for text in texts:
        for word, others in _parsed(text).items():
            own = found.setdefault(stem(word), {})
            own.update(dict.fromkeys(other for other in map(stem, others) if other != stem(word)))
    return {word: tuple(others) for word, others in found.items()}


SHORT_FORMS: dict[str, tuple[str, ...]] = {
    **{code: tuple(map(stem, ("currency", "exchange", "convert"))) for code in CURRENCIES.split()},
    **{word: tuple(map(stem, long)) for word, long in _parsed(_SHORT_FORMS).items()},
}
"""Short form → the stems it means."""

SYNONYMS: dict[str, tuple[str, ...]] = _merged(_SYNONYMS, EVERYDAY)
"""Stem → stems of words that tools use instead."""

SPLIT: dict[str, tuple[str, ...]] = {
    "".join(pieces): tuple(map(stem, pieces)) for pieces in map(str.split, COMPOUNDS.split(";")) if pieces
}
"""A word that is also written in two → the stems of its parts."""

FOREIGN, FOREIGN_UNSPACED = _foreign()
"""Folded word of another language → English stems; the second for scripts written without spaces."""

ENGLISH: frozenset[str] = frozenset(
    {
        *SYNONYMS,
        *(
            s
            for t in (SYNONYMS, SHORT_FORMS, FOREIGN, FOREIGN_UNSPACED)
            for stems in t.values()
            for s in stems
        ),
    }
)
"""Stems of known words, which are never taken for misspellings."""

_BY_BEGINNING: dict[str, list[str]] = {}
for _word in FOREIGN:
    _BY_BEGINNING.setdefault(_word[:4], []).append(_word)

_ENDINGS = ("en", "er", "es", "e", "n", "s")
_SHORTEST_BASE = 4
_LONGEST_UNSPACED = max(map(len, FOREIGN_UNSPACED))


def foreign(word: str) -> tuple[str, ...]:
    """Return the English stems of a folded word, also of inflected forms that share a long beginning with a known word."""
    found = FOREIGN.get(word) or _without_ending(word)
    if found is None and len(word) >= 6 and not word.isascii():
        known = next((k for k in _BY_BEGINNING.get(word[:4], ()) if _same_beginning(word, k)), None)
        found = FOREIGN[known] if known is not None else None
    return found or ()


def _without_ending(word: str) -> tuple[str, ...] | None:
    """Return the stems of a plural or similar form, by the endings that several languages share."""
    if stem(word) in ENGLISH:
        return None
    known = (word[: -len(end)] for end in _ENDINGS if word.endswith(end))
    return next((FOREIGN[base] for base in known if len(base) >= _SHORTEST_BASE and base in FOREIGN), None)


def foreign_run(run: str) -> list[str]:
    """Return the English stems of known words in a run of a script without spaces, longest words first."""
    out: list[str] = []
    at = 0
    while at < len(run):
        for size in range(min(_LONGEST_UNSPACED, len(run) - at), 0, -1):
            found = FOREIGN_UNSPACED.get(run[at : at + size])
            if found:
                out += found
                at += size
                break
        else:
            at += 1
    return list(dict.fromkeys(out))


def _same_beginning(word: str, known: str) -> bool:
    shared = min(len(word), len(known)) - 2
    return shared >= 4 and abs(len(word) - len(known)) <= 3 and word[:shared] == known[:shared]
