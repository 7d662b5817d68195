"""A shop for the example agents: thirty tools, what they answer, and ten questions of its owner."""

from __future__ import annotations

import json
from typing import Any

MODEL = "any-model"
SYSTEM = "You help the owner of a small shop. Use the tools; answer in one sentence."

QUESTIONS = (
    "Please list the product reviews of November. How many are there, and which is the first with one star?",
    "What does the review with the number 41 say?",
    "Now list all orders of November. How many are there, and what is their total?",
    "Who is the customer of order number 17? Look the customer up.",
    "Create a voucher of 10 euros for this customer.",
    "How many teapots are in stock at the moment?",
    "What would shipping 3 kg to Lisbon cost?",
    "Translate the sentence 'Thank you for your patience' into Portuguese.",
    "Schedule a callback to the customer tomorrow at ten.",
    "That is all for today, thank you. What did we get done?",
)

REVIEWS = [
    {
        "number": number,
        "product": ("teapot", "kettle", "cup", "tray")[number % 4],
        "stars": (5, 4, 5, 3, 2, 4, 1)[number % 7],
        "text": f"Review {number}: " + "the glaze is even and the handle stays cool " * 4,
    }
    for number in range(312)
]
ORDERS = [
    {
        "number": number,
        "customer_id": 500 + number * 7 % 90,
        "cents": 1_250 + number * 35,
        "note": f"order {number}, " + "packed in straw and sent by the slow boat " * 4,
    }
    for number in range(287)
]

# Name, description, parameters.
_TABLE = """
list_reviews|List all product reviews of one month, with product, stars and text. The list is complete and may be long.|month:string
list_orders|List all orders of one month, with number, customer, amount in cents and notes. The list is complete and may be long.|month:string
get_customer|Look up a customer by id: name, e-mail address, language and since when they buy here.|customer_id:integer
create_voucher|Create a voucher of an amount in euros for a customer; the code is sent by e-mail.|customer_id:integer,euros:integer
get_stock|Tell how many pieces of a product are in stock at the moment, in the shop and in the store room.|product:string
shipping_quote|Calculate what shipping a parcel of some weight to a city costs and how many days it takes.|city:string,kilograms:number
translate_text|Translate a sentence or a short text into another language, in a polite tone.|text:string,language:string
schedule_callback|Schedule a callback: somebody of the shop phones a customer at the given time.|customer_id:integer,time:string
update_product_price|Change the price of a product in the catalogue from a given day on; the old price stays on record.|product:string,cents:integer
publish_newsletter|Publish the monthly newsletter to all subscribers, or send a preview to one address only.|title:string,preview:boolean
cancel_subscription|Cancel the newsletter subscription of an address and confirm this by e-mail.|address:string
print_label|Print an address label for a parcel on the label printer beside the packing table.|address:string
reserve_table|Reserve a table of the tea room for some guests at a given time.|guests:integer,time:string
book_courier|Book the courier of the city to fetch parcels today before five o'clock.|parcels:integer
open_invoice_pdf|Render an invoice as PDF and return the link under which it can be downloaded.|invoice:string
remind_unpaid|Send a reminder about an unpaid invoice; the third one goes by registered letter.|invoice:string
export_ledger|Export the ledger of a quarter for the tax adviser, as CSV in the format of the tax office.|quarter:string
count_visitors|Count visitors of the web site on a day, by country and by page.|day:string
rotate_banner|Put another banner on the start page of the web site for some days.|banner:string
lookup_vat_rate|Return the rate of value added tax of a country for a class of goods.|country:string
list_suppliers|Show suppliers with their delivery times and the persons to talk to.|kind:string
order_material|Order clay, glaze or packing material from a supplier, up to the monthly limit.|material:string,kilograms:number
kiln_status|Read temperature and remaining minutes of the kiln in the workshop.|kiln:integer
start_kiln|Start a firing program of the kiln; it cannot be interrupted for eight hours.|kiln:integer,program:string
archive_mail|Archive letters of the mailbox that are older than some days and have been answered.|days:integer
send_sms|Send a short message to a phone number, at most 160 characters.|number:string,text:string
check_weather|Forecast the weather at the market place for a day, to decide about the stall.|day:string
assign_shift|Assign a shift in the shop to an employee; double shifts are refused.|employee:string,day:string
backup_catalogue|Back up the catalogue with all pictures to the second disk.|name:string
close_day|Close the cash register for the day and print the report of all takings.|day:string
"""


def _definition(line: str) -> dict[str, Any]:
    name, description, parameters = line.split("|")
    pairs = [each.split(":") for each in parameters.split(",")]
    properties = {
        key: {"type": kind, "description": f"{key.replace('_', ' ')}, as the shop's records have it"}
        for key, kind in pairs
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "parameters": schema}


TOOLS = [_definition(line) for line in _TABLE.strip().splitlines()]


def run_tool(name: str, arguments: dict[str, Any]) -> str:
    """What a tool answers, as text."""
    answers: dict[str, Any] = {
        "list_reviews": REVIEWS,
        "list_orders": ORDERS,
        "get_customer": {"id": arguments.get("customer_id"), "name": "Inês Duarte", "language": "pt"},
        "create_voucher": {"code": "TEA-10", "euros": arguments.get("euros")},
        "get_stock": {"shop": 14, "store_room": 52},
        "shipping_quote": {"cents": 1_890, "days": 4},
        "translate_text": {"text": "Obrigada pela sua paciência"},
        "schedule_callback": {"booked": arguments.get("time")},
    }
    return json.dumps(answers.get(name, {"error": f"{name} is not needed here"}), ensure_ascii=False)
