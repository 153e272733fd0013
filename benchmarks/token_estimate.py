"""How far the estimate of tokens is from the embedded model's tokenizer, by language.

python benchmarks/token_estimate.py
"""

from __future__ import annotations

import argparse

import httpx

from autoprompt.llm import local
from autoprompt.text.scripts import estimate_tokens

# One request to a classifier, translated.
TEXTS = {
    "English": "The customer asks why the card payment was charged twice and wants the money "
    "back as soon as possible. Decide which team answers.",
    "German": "Der Kunde fragt, warum die Kartenzahlung zweimal abgebucht wurde, und möchte "
    "das Geld so schnell wie möglich zurück.",
    "French": "Le client demande pourquoi le paiement par carte a été débité deux fois et "
    "souhaite être remboursé au plus vite.",
    "Turkish": "Müşteri, kartla ödemenin neden iki kez çekildiğini soruyor ve parasını en kısa "
    "sürede geri istiyor.",
    "Vietnamese": "Khách hàng hỏi tại sao thanh toán bằng thẻ bị tính hai lần và muốn được hoàn "
    "tiền càng sớm càng tốt.",
    "Russian": "Клиент спрашивает, почему платёж по карте был списан дважды, и хочет как можно "
    "скорее вернуть деньги. Определите, какая команда ответит.",
    "Ukrainian": "Клієнт запитує, чому платіж карткою було списано двічі, і хоче якнайшвидше "
    "повернути гроші.",
    "Greek": "Ο πελάτης ρωτά γιατί η πληρωμή με κάρτα χρεώθηκε δύο φορές και θέλει τα χρήματά "
    "του πίσω το συντομότερο δυνατό.",
    "Arabic": "يسأل العميل لماذا تم خصم الدفع بالبطاقة مرتين ويريد استرداد المال في أقرب وقت "
    "ممكن. حدد الفريق الذي يجيب.",
    "Hebrew": "הלקוח שואל מדוע התשלום בכרטיס חויב פעמיים ורוצה את הכסף בחזרה בהקדם האפשרי.",
    "Hindi": "ग्राहक पूछता है कि कार्ड भुगतान दो बार क्यों काटा गया और वह जल्द से जल्द पैसे "
    "वापस चाहता है। तय करें कि कौन सी टीम जवाब देगी।",
    "Bengali": "গ্রাহক জিজ্ঞাসা করছেন কেন কার্ড পেমেন্ট দুইবার কাটা হয়েছে এবং তিনি দ্রুত টাকা ফেরত চান।",
    "Tamil": "அட்டைக் கட்டணம் ஏன் இரண்டு முறை வசூலிக்கப்பட்டது என்று வாடிக்கையாளர் "
    "கேட்கிறார், பணத்தை விரைவில் திரும்பப் பெற விரும்புகிறார்.",
    "Thai": "ลูกค้าถามว่าทำไมการชำระเงินด้วยบัตรถูกเรียกเก็บสองครั้งและต้องการเงินคืนโดยเร็วที่สุด",
    "Korean": "고객이 카드 결제가 두 번 청구된 이유를 묻고 가능한 한 빨리 환불을 "
    "원합니다. 어느 팀이 답변할지 판단하세요.",
    "Japanese": "お客様は、カード決済が二重に請求された理由を尋ね、できるだけ早い返金を希望しています。"
    "どのチームが回答するか判断してください。",
    "Chinese": "客户询问为什么银行卡付款被收取了两次，并希望尽快退款。请判断由哪个团队回复这条消息。",
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    server = local.start()
    try:
        with httpx.Client(headers={"Authorization": f"Bearer {server.api_key}"}) as client:
            url = server.base_url.removesuffix("/v1") + "/tokenize"
            print("| language | letters | tokens | estimate | estimate / tokens |")
            print("| --- | --- | --- | --- | --- |")
            for language, text in TEXTS.items():
                tokens = len(client.post(url, json={"content": text}).raise_for_status().json()["tokens"])
                estimate = estimate_tokens(text)
                print(f"| {language} | {len(text)} | {tokens} | {estimate} | {estimate / tokens:.2f} |")
    finally:
        server.close()


if __name__ == "__main__":
    main()
